// The user's compile server: found, started, replaced.
#pragma once

#include <chrono>
#include <string>

#include "compile_client/rpc_client.h"
#include "proto/options_generated.h"

namespace hpu::client {

struct DaemonOptions {
  std::string server_binary;
  std::string cache_dir;
  int log_level = 2;
  std::string upstream;     // servers that it asks, as --upstream; empty: its configuration's
  std::string config_file;  // --config of the server; empty: none
  std::chrono::milliseconds start_timeout{20'000};
  std::chrono::seconds idle_timeout{15 * 60};
  double compile_timeout_s = default_options::compile_timeout_s;  // of the server's compilations
};

// Path of the socket of a running server of exactly this compiler. One process starts it, others
// wait for that; a server of another build, or one that was started without the other servers or
// the configuration that are asked for here, is asked to stop and replaced; one that has others
// stays. The server outlives us.
// Bounded by start_timeout. All failures are ServerUnavailable (connection.h): NOT_FOUND, no such
// binary; UNAVAILABLE, it did not come up (the message has the end of its log), or one that is
// there does not answer (the message has its process id).
absl::StatusOr<std::string> EnsureServer(const DaemonOptions& options, const Interrupt& interrupt);

}  // namespace hpu::client
