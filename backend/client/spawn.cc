#include "backend/client/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/regular_file.h"

namespace hpu::client {
namespace {

constexpr int kPollMs = 100;
// The server itself begins a new file long before this.
constexpr size_t kMaxLogBytes = 64 << 20;

class Pipe {
 public:
  Pipe() : ok_(pipe2(ends_, O_CLOEXEC) == 0) {}
  ~Pipe() {
    CloseWriteEnd();
    if (ok_) close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  bool ok() const { return ok_; }
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseWriteEnd() {
    if (ok_ && ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
  const bool ok_;
};

// Returns the first process of the program. Standard output goes to `output`.
absl::StatusOr<pid_t> Spawn(const std::vector<std::string>& command, const std::string& log_path,
                            int output) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  // A FIFO that nobody reads would block posix_spawn, and with it the user's process.
  const bool loggable =
      (access(log_path.c_str(), W_OK) == 0 || errno == ENOENT) && IsRegularOrAbsent(log_path);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO,
                                   loggable ? log_path.c_str() : "/dev/null",
                                   O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0600);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, command[0].c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return Error(absl::StatusCode::kUnavailable, "starting ", command[0], ": ", std::strerror(error));
}

std::string LastLine(const std::string& path) {
  std::istringstream in(ReadRegularFile(path, kMaxLogBytes).value_or(""));
  std::string line;
  std::string last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

// Reads until kReadyLine, the end of the output or the deadline.
absl::Status WaitForReady(int fd, std::chrono::steady_clock::time_point deadline,
                          const std::function<absl::Status()>& interrupt) {
  std::string text;
  while (text.find(kReadyLine) == std::string::npos) {
    RETURN_IF_ERROR(interrupt());
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(absl::StatusCode::kUnavailable, "the compile server was not ready in time");
    }
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, kPollMs) <= 0) continue;
    char buffer[1024];
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Error(absl::StatusCode::kUnavailable, "the compile server ended while starting",
                   text.empty() ? "" : ": ", text);
    }
    text.append(buffer, static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SpawnDaemon(const std::vector<std::string>& command, const std::string& log_path,
                         std::chrono::steady_clock::time_point deadline,
                         const std::function<absl::Status()>& interrupt) {
  Pipe pipe;
  if (!pipe.ok()) {
    return Error(absl::StatusCode::kUnavailable, "pipe: ", std::strerror(errno));
  }
  ASSIGN_OR_RETURN(const pid_t first, Spawn(command, log_path, pipe.write_end()));
  pipe.CloseWriteEnd();
  const absl::Status ready = WaitForReady(pipe.read_end(), deadline, interrupt);
  // The first process has forked and ended. If it hangs instead, it must be killed.
  if (!ready.ok()) kill(first, SIGTERM);
  while (waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (ready.ok() || !absl::IsUnavailable(ready)) return ready;
  const std::string last = LastLine(log_path);
  return Annotate(ready, "starting " + command[0] + " (log " + log_path +
                             (last.empty() ? ", which is empty" : ", last line: " + last) + ")");
}

}  // namespace hpu::client
