#include "backend/client/file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace hpu::client {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLockPoll{10};
// A holder may be suspended for a moment, for example by a debugger.
constexpr std::chrono::milliseconds kStoppedPatience{2000};
constexpr size_t kMaxLockBytes = 4096;

bool HasOpen(pid_t process, const struct stat& file) {
  std::error_code error;
  fs::directory_iterator it("/proc/" + std::to_string(process) + "/fd", error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    struct stat info{};
    if (stat(it->path().c_str(), &info) == 0 && info.st_dev == file.st_dev &&
        info.st_ino == file.st_ino) {
      return true;
    }
  }
  return false;
}

// Returns the process that holds flock on the file, or nothing if it is in another container or
// belongs to another user.
std::optional<pid_t> HolderOf(const struct stat& file) {
  std::ifstream locks("/proc/locks");
  // A line is "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF"; that of a waiting process has "->"
  // after the number.
  for (std::string line; std::getline(locks, line);) {
    std::istringstream fields(line);
    std::string number, kind, strength, access, place;
    pid_t process = 0;
    if (!(fields >> number >> kind >> strength >> access >> process >> place)) continue;
    const std::string inode = ":" + std::to_string(file.st_ino);
    // Device numbers here do not always equal those of stat.
    if (kind == "FLOCK" && place.ends_with(inode) && HasOpen(process, file)) return process;
  }
  return std::nullopt;
}

bool IsStopped(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(in, line);
  // A line is "1234 (name) T ..."; the name may contain brackets.
  const size_t end = line.rfind(") ");
  return end != std::string::npos && end + 2 < line.size() &&
         (line[end + 2] == 'T' || line[end + 2] == 't');
}

}  // namespace

FileLock::FileLock(const std::string& path)
    : path_(path), file_(RegularFile::OpenOrCreate(path, 0600)) {}

absl::StatusOr<bool> FileLock::Try() {
  RETURN_IF_ERROR_AT(file_.status(), "lock file");
  if (flock(file_->descriptor(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return Error(absl::StatusCode::kUnavailable, "lock file ", path_, ": ", std::strerror(errno));
}

absl::Status FileLock::Take(Clock::time_point deadline,
                            const std::function<absl::Status()>& interrupt) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    ASSIGN_OR_RETURN(const bool taken, Try());
    if (taken) return absl::OkStatus();
    RETURN_IF_ERROR(interrupt());
    const Clock::time_point now = Clock::now();
    if (now >= std::min(deadline, begin + kStoppedPatience)) {
      const std::optional<pid_t> holder = HolderOf(file_->info());
      const std::string process = holder.has_value() ? std::to_string(*holder) : "";
      if (holder.has_value() && IsStopped(*holder)) {
        return Error(absl::StatusCode::kUnavailable, "process ", process, " holds ", path_,
                     " and is stopped; let it go on: kill -CONT ", process, ", or end it: kill -9 ",
                     process);
      }
      if (now >= deadline) {
        return Error(absl::StatusCode::kUnavailable, path_, " stayed locked by ",
                     process.empty()
                         ? "another process"
                         : "process " + process + "; if it hangs, end it: kill -9 " + process);
      }
    }
    std::this_thread::sleep_for(kLockPoll);
  }
}

std::optional<ServerProcess> RunningServer(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  std::string text;
  {
    const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
    if (!file.ok()) return std::nullopt;
    if (flock(file->descriptor(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
      return std::nullopt;
    }
    text = file->Read(kMaxLockBytes).value_or("");
  }
  ServerProcess process;
  std::string state;
  std::istringstream in(text);
  // The file is empty while a client that is about to start a server checks whether the place is
  // free.
  if (!(in >> process.pid >> state)) return std::nullopt;
  process.stopping = state == "stopping";
  return process;
}

}  // namespace hpu::client
