#include "backend/client/connection.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace hpu::client {
namespace {

constexpr char kServerUnavailable[] = "hpu.client.ServerUnavailable";

constexpr int kMaxReplyBytes = 8 << 20;  // a manifest of 4 MiB or a chunk of 1 MiB, and room

// The process in which gRPC has its threads; 0 = none yet.
std::atomic<pid_t> grpc_process{0};

absl::Status Unavailable(const std::string& path, int error) {
  return ServerUnavailable(Error(absl::StatusCode::kUnavailable, "no compile server at ", path,
                                 ": ", std::strerror(error)));
}

absl::StatusOr<int> ConnectSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Unavailable(path, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Unavailable(path, errno);
  // A unix socket connects at once or fails; EAGAIN means that the server's backlog is full.
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  const int error = errno;
  close(fd);
  return Unavailable(path, error);
}

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A server that died without closing is noticed in 15 s whatever a compilation takes.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

}  // namespace

absl::Status ServerUnavailable(absl::Status status) {
  if (!status.ok()) status.SetPayload(kServerUnavailable, absl::Cord());
  return status;
}

bool IsServerUnavailable(const absl::Status& status) {
  return status.GetPayload(kServerUnavailable).has_value();
}

bool AfterFork() {
  const pid_t process = grpc_process;
  return process != 0 && process != getpid();
}

absl::StatusOr<std::shared_ptr<Connection>> Connect(const std::string& socket_path) {
  if (AfterFork()) {
    return ServerUnavailable(
        Error(absl::StatusCode::kFailedPrecondition,
              "this process was forked from one that had used the compile server; only the parent "
              "can compile (start workers with the spawn method, or compile in them first)"));
  }
  ASSIGN_OR_RETURN(const int fd, ConnectSocket(socket_path));
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
    close(fd);
    return Error(absl::StatusCode::kPermissionDenied, "the server at ", socket_path,
                 " belongs to another user");
  }
  grpc_process = getpid();
  auto connection = std::make_shared<Connection>();
  connection->channel =
      grpc::CreateCustomInsecureChannelFromFd("hpu-compile-server", fd, Arguments());
  connection->stub = wire::CompileService::NewStub(connection->channel);
  connection->server_pid = peer.pid;
  return connection;
}

}  // namespace hpu::client
