// Finds, starts and replaces the user's compile server.
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
  std::string upstream;  // servers that it asks, as --upstream; empty: those of its configuration
  std::string config_file;  // --config of the server; empty: none
  std::chrono::milliseconds start_timeout{20'000};
  std::chrono::seconds idle_timeout{15 * 60};
  // for each compilation of the server.
  double compile_timeout_s = default_options::compile_timeout_s;
};

// Returns the path of the socket of a running server of exactly this compiler. One process starts
// it, and others wait for that. A server of another build, or one that was started without the
// upstream servers or the configuration that are asked for here, is asked to stop and replaced; one
// that has different ones stays. The server outlives this process.
// The call is bounded by start_timeout. All failures are ServerUnavailable (connection.h):
// NOT_FOUND if there is no such binary, and UNAVAILABLE if the server did not come up (the message
// has the end of its log) or does not answer (the message has its process id).
absl::StatusOr<std::string> EnsureServer(const DaemonOptions& options, const Interrupt& interrupt);

}  // namespace hpu::client
