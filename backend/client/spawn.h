// Starts a program that detaches itself (it forks and its first process ends at once) and reports
// on standard output when it is ready.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::client {

// The line that a daemon writes when it can be used; the server's --daemon mode does so.
inline constexpr char kReadyLine[] = "ready\n";

// Runs `command` in a session of its own with standard error appended to `log_path`, and waits for
// kReadyLine. Returns UNAVAILABLE if it ended before or if the deadline passed; the message
// contains its output and the last line of the log. No atfork handlers run, and no descriptor is
// inherited.
absl::Status SpawnDaemon(const std::vector<std::string>& command, const std::string& log_path,
                         std::chrono::steady_clock::time_point deadline,
                         const std::function<absl::Status()>& interrupt);

}  // namespace hpu::client
