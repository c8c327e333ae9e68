#include "backend/client/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

namespace hpu::client {
namespace {

constexpr std::chrono::milliseconds kLockPoll{10};

}  // namespace

FileLock::FileLock(const std::string& path)
    : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)), path_(path) {}

FileLock::~FileLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<bool> FileLock::Try() {
  if (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (fd_ >= 0 && errno == EWOULDBLOCK) return false;
  return Error(absl::StatusCode::kUnavailable, "lock file ", path_, ": ", std::strerror(errno));
}

absl::Status FileLock::Take(std::chrono::steady_clock::time_point deadline,
                            const std::function<absl::Status()>& interrupt) {
  while (true) {
    ASSIGN_OR_RETURN(const bool taken, Try());
    if (taken) return absl::OkStatus();
    RETURN_IF_ERROR(interrupt());
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(absl::StatusCode::kUnavailable, path_, " stayed locked by another process");
    }
    std::this_thread::sleep_for(kLockPoll);
  }
}

std::optional<ServerProcess> RunningServer(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const bool held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  if (!held) return std::nullopt;
  ServerProcess process;
  std::string state;
  std::ifstream in(path);
  // No text: a client that is about to start a server looks whether the place is free.
  if (!(in >> process.pid >> state)) return std::nullopt;
  process.stopping = state == "stopping";
  return process;
}

}  // namespace hpu::client
