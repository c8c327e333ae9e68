// Lock files: who may start a server, and who serves.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/regular_file.h"
#include "base/status.h"

namespace hpu::client {

// flock with a bound. The lock goes with the object, or with the process.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // False if another process holds it. UNAVAILABLE: there can be no such file.
  absl::StatusOr<bool> Try();
  // UNAVAILABLE also when the deadline passes, or sooner where who holds it is stopped and will not
  // let go; the message names the process where that can be known. An `interrupt`'s status.
  absl::Status Take(std::chrono::steady_clock::time_point deadline,
                    const std::function<absl::Status()>& interrupt);

 private:
  const std::string path_;
  const absl::StatusOr<RegularFile> file_;
};

struct ServerProcess {
  pid_t pid = 0;
  bool stopping = false;  // it takes no more connections and finishes what it does
};

// The server that holds the lock of this socket, whether it listens, answers or neither. Its text
// is "PID serving" or "PID stopping".
std::optional<ServerProcess> RunningServer(const std::string& socket_path);

}  // namespace hpu::client
