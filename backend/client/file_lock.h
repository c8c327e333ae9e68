// Lock files decide which process may start a server, and which one serves.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/regular_file.h"
#include "base/status.h"

namespace hpu::client {

// An flock with a time limit. The lock ends with the object or with the process.
class FileLock {
 public:
  explicit FileLock(const std::string& path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  // Returns false if another process holds the lock, and UNAVAILABLE if the file cannot exist.
  absl::StatusOr<bool> Try();
  // Returns UNAVAILABLE also when the deadline passes, or sooner if the holder is suspended and
  // will not let go; the message names the process if it can be known. Also returns the status of
  // `interrupt`.
  absl::Status Take(std::chrono::steady_clock::time_point deadline,
                    const std::function<absl::Status()>& interrupt);

 private:
  const std::string path_;
  const absl::StatusOr<RegularFile> file_;
};

struct ServerProcess {
  pid_t pid = 0;
  bool stopping = false;  // it accepts no more connections and finishes its work
};

// Returns the server that holds the lock of this socket, whether it listens, answers or does
// neither. The text of the lock file is "PID serving" or "PID stopping".
std::optional<ServerProcess> RunningServer(const std::string& socket_path);

}  // namespace hpu::client
