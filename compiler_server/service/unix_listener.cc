#include "compiler_server/service/unix_listener.h"

#include <fcntl.h>
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

namespace hpu::server {
namespace {

constexpr int kBacklog = 256;

absl::Status SystemError(const std::string& what) {
  return Error(absl::StatusCode::kUnavailable, what, ": ", std::strerror(errno));
}

absl::Status CheckPrivate(const std::string& folder) {
  struct stat info{};
  if (stat(folder.c_str(), &info) != 0) return SystemError("socket folder " + folder);
  if (info.st_uid == geteuid() && (info.st_mode & 077) == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, "socket folder ", folder,
               " is open to other users; chmod 700 it");
}

absl::StatusOr<int> TakeLock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("lock file " + path);
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return Error(absl::StatusCode::kAlreadyExists, "another compile server holds ", path);
}

absl::StatusOr<int> Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Error(absl::StatusCode::kFailedPrecondition, "socket path ", path, " has ", path.size(),
                 " bytes; at most ", sizeof(address.sun_path) - 1, " are possible");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SystemError("socket");
  unlink(path.c_str());  // left over by a server that was killed: we hold its lock
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      chmod(path.c_str(), 0600) == 0 && listen(fd, kBacklog) == 0) {
    return fd;
  }
  const absl::Status failure = SystemError("listening on " + path);
  close(fd);
  return failure;
}

bool IsSameUser(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Bind(const std::string& path) {
  RETURN_IF_ERROR(CheckPrivate(std::filesystem::absolute(path).parent_path().string()));
  ASSIGN_OR_RETURN(const int lock_fd, TakeLock(path + ".lock"));
  const absl::StatusOr<int> listen_fd = Listen(path);
  const int wake_fd = eventfd(0, EFD_CLOEXEC);
  if (!listen_fd.ok() || wake_fd < 0) {
    close(lock_fd);
    return listen_fd.ok() ? SystemError("eventfd") : listen_fd.status();
  }
  return std::unique_ptr<UnixListener>(new UnixListener(path, lock_fd, *listen_fd, wake_fd));
}

UnixListener::~UnixListener() {
  Stop();
  close(listen_fd_);
  close(wake_fd_);
  close(lock_fd_);
}

void UnixListener::Start(grpc::Server* server) {
  thread_ = std::thread([this, server] { AcceptLoop(server); });
}

void UnixListener::Stop() {
  if (stopped_) return;
  stopped_ = true;
  // Before the accept loop ends, so that nobody connects to a socket that no one serves.
  unlink(path_.c_str());
  eventfd_write(wake_fd_, 1);
  if (thread_.joinable()) thread_.join();
}

void UnixListener::AcceptLoop(grpc::Server* server) {
  while (true) {
    pollfd waiting[2] = {{listen_fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(waiting, 2, -1) < 0 && errno != EINTR) return;
    if (waiting[1].revents != 0) return;
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      HPU_LOG(kError, "connection not accepted error=" << std::strerror(errno));
      // Out of descriptors: let others be closed before trying again.
      poll(&waiting[1], 1, 100);
      continue;
    }
    if (!IsSameUser(fd)) {
      HPU_LOG(kWarning, "connection of another user refused");
      close(fd);
      continue;
    }
    grpc::AddInsecureChannelFromFd(server, fd);
  }
}

}  // namespace hpu::server
