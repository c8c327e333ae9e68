#include "compiler_server/service/doors/unix_listener.h"

#include <grpcpp/server.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "base/regular_file.h"

namespace hpu::server {
namespace {

// The kernel's limit; a client that finds no room continues without us.
constexpr int kBacklog = 4096;
constexpr int kLockTries = 50;
constexpr useconds_t kLockPollMicros = 10'000;

absl::Status SystemError(const std::string& what) {
  return Error(absl::StatusCode::kUnavailable, what, ": ", std::strerror(errno));
}

std::string FolderOf(const std::string& path) {
  return std::filesystem::absolute(path).parent_path().string();
}

absl::Status CheckPrivate(const std::string& folder) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return SystemError("socket folder " + folder);
  if (info.st_uid == geteuid() && (info.st_mode & 077) == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, "socket folder ", folder,
               " is open to other users; chmod 700 it");
}

bool IsSameUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Bind(const std::string& path) {
  RETURN_IF_ERROR(CheckPrivate(FolderOf(path)));
  std::unique_ptr<UnixListener> listener(new UnixListener(path));
  RETURN_IF_ERROR(listener->TakeLock());
  RETURN_IF_ERROR(listener->Listen());
  listener->wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->wake_fd_ < 0) return SystemError("eventfd");
  return listener;
}

UnixListener::~UnixListener() {
  Stop();
  for (const int fd : {listen_fd_, wake_fd_, lock_fd_}) {
    if (fd >= 0) close(fd);
  }
}

absl::Status UnixListener::TakeLock() {
  const std::string path = path_ + ".lock";
  absl::StatusOr<RegularFile> file = RegularFile::OpenOrCreate(path, 0600);
  RETURN_IF_ERROR_AT(file.status(), "lock file");
  const int fd = std::move(*file).Release();
  // A process that only asks whether a server runs holds the lock for an instant.
  for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (tries == kLockTries) {
      close(fd);
      return Error(absl::StatusCode::kAlreadyExists, "another compile server holds ", path);
    }
    usleep(kLockPollMicros);
  }
  const FileIdentity found(path);
  if (!found.IsOf(fd)) {
    close(fd);
    return Error(absl::StatusCode::kAlreadyExists, "another compile server replaced ", path);
  }
  lock_ = found;
  if (lock_fd_ >= 0) close(lock_fd_);
  lock_fd_ = fd;
  WriteState("serving");
  return absl::OkStatus();
}

absl::Status UnixListener::CheckPath(const std::string& path) {
  constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
  constexpr size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMost) {
    return Error(kRefused, "socket path ", path, " has ", path.size(), " bytes; at most ", kMost,
                 " are possible");
  }
  struct stat info{};
  if (lstat(path.c_str(), &info) == 0 && !S_ISSOCK(info.st_mode)) {
    return Error(kRefused, "at the socket's path ", path, " there is something that is no socket");
  }
  return absl::OkStatus();
}

absl::Status UnixListener::Listen() {
  RETURN_IF_ERROR(CheckPath(path_));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SystemError("socket");
  unlink(path_.c_str());  // a killed server left it: we hold its lock
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path_.c_str(), 0600) != 0 || listen(fd, kBacklog) != 0) {
    const absl::Status failure = SystemError("listening on " + path_);
    close(fd);
    return failure;
  }
  if (listen_fd_ >= 0) close(listen_fd_);
  listen_fd_ = fd;
  socket_ = FileIdentity(path_);
  return absl::OkStatus();
}

void UnixListener::WriteState(const char* state) const {
  const std::string text = std::to_string(getpid()) + " " + state + "\n";
  // The text is written before the file is cut, so that a reader always finds a state. An empty
  // file would mean that no server runs.
  if (pwrite(lock_fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(lock_fd_, static_cast<off_t>(text.size())) != 0) {
    HPU_LOG(kDebug, "lock file without text error=" << std::strerror(errno));
  }
}

void UnixListener::Start(grpc::Server* server) {
  server_ = server;
  thread_ = std::thread([this] { AcceptLoop(); });
}

absl::StatusOr<bool> UnixListener::Restore() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return false;
  if (lock_.InPlace() && socket_.InPlace()) return false;
  const std::string folder = FolderOf(path_);
  mkdir(folder.c_str(), 0700);
  RETURN_IF_ERROR(CheckPrivate(folder));
  if (!lock_.InPlace()) RETURN_IF_ERROR(TakeLock());
  if (socket_.InPlace()) return true;
  EndAcceptLoop();
  RETURN_IF_ERROR(Listen());
  if (server_ != nullptr) Start(server_);
  return true;
}

void UnixListener::EndAcceptLoop() {
  // New connections are refused from now on; those that wait are still accepted.
  shutdown(listen_fd_, SHUT_RD);
  eventfd_write(wake_fd_, 1);
  if (thread_.joinable()) thread_.join();
  eventfd_t count = 0;
  eventfd_read(wake_fd_, &count);
}

void UnixListener::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  if (lock_fd_ >= 0) WriteState("stopping");
  // This happens before the accept loop ends, so that nobody connects to a socket that no one
  // serves. The path may now belong to another server, whose folder has replaced ours, or may never
  // have been ours.
  if (listen_fd_ >= 0 && socket_.InPlace()) unlink(path_.c_str());
  if (wake_fd_ >= 0) EndAcceptLoop();
}

void UnixListener::AcceptLoop() {
  while (true) {
    pollfd waiting[2] = {{listen_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) return;
    const bool ends = waiting[1].revents != 0;
    // Clients that connected before the end are served, because closing the socket would cut them
    // off. (If there are no descriptors left for them, it does.)
    while (AcceptOne() && ends) {
    }
    if (ends) return;
  }
}

bool UnixListener::AcceptOne() {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    // EINVAL: it was shut down, and nobody waits.
    if (errno == EAGAIN || errno == EINVAL) return false;
    HPU_LOG(kError, "connection not accepted error=" << std::strerror(errno));
    // There are no descriptors left: others must be closed before the next try.
    pollfd wake{wake_fd_, POLLIN, 0};
    poll(&wake, 1, 100);
    return false;
  }
  if (!IsSameUser(fd)) {
    HPU_LOG(kWarning, "connection of another user refused");
    close(fd);
    return true;
  }
  grpc::AddInsecureChannelFromFd(server_, fd);
  return true;
}

}  // namespace hpu::server
