// The user's compile server: found, started, replaced.
#pragma once

#include <chrono>
#include <string>

#include "backend/client/rpc_client.h"

namespace hpu::client {

struct DaemonOptions {
  std::string server_binary;
  std::string cache_dir;
  int log_level = 2;
  std::chrono::milliseconds start_timeout{20'000};
  std::chrono::seconds idle_timeout{15 * 60};
};

// Path of the socket of a running server of exactly this compiler. One process starts it, others
// wait for that; a server of another build is asked to stop and replaced. The server outlives us.
// Bounded by start_timeout. NOT_FOUND: no such binary. UNAVAILABLE: it did not come up; the message
// has the end of its log.
absl::StatusOr<std::string> EnsureServer(const DaemonOptions& options, const Interrupt& interrupt);

}  // namespace hpu::client
