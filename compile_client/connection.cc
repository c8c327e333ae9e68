#include "compile_client/connection.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

namespace hpu::client {
namespace {

constexpr char kServerUnavailable[] = "hpu.client.ServerUnavailable";

// for a manifest of 4 MiB or a chunk of 1 MiB, with room to spare.
constexpr int kMaxReplyBytes = 8 << 20;

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
  // A unix socket connects at once or fails. EAGAIN means that the server's backlog is full.
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  const int error = errno;
  close(fd);
  return Unavailable(path, error);
}

// These bound how long it takes to notice that a server died without closing, however long a
// compilation takes.
struct Pings {
  int interval_ms;
  int timeout_ms;
};
constexpr Pings kUnixPings{5000, 10'000};
constexpr Pings kNetworkPings{2000, 3000};

grpc::ChannelArguments Arguments(const Pings& pings) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReplyBytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, pings.interval_ms);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, pings.timeout_ms);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return arguments;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const Endpoint& endpoint,
                                                                      const Access& access) {
  if (endpoint.kind == Endpoint::Kind::kTcp) return grpc::InsecureChannelCredentials();
  const absl::StatusOr<TlsAccess> read = ReadTlsAccess(access);
  if (read.ok()) return TlsCredentials(*read);
  return ServerUnavailable(Annotate(read.status(), "no compile server at " + ToText(endpoint)));
}

absl::Status RefuseAfterFork() {
  return ServerUnavailable(
      Error(absl::StatusCode::kFailedPrecondition,
            "this process was forked from one that had used the compile server; only the parent "
            "can compile (start workers with the spawn method, or compile in them first)"));
}

std::shared_ptr<Connection> MakeConnection(std::shared_ptr<grpc::Channel> channel) {
  auto connection = std::make_shared<Connection>();
  connection->channel = std::move(channel);
  connection->stub = wire::CompileService::NewStub(connection->channel);
  return connection;
}

// The pause before the second attempt.
constexpr std::chrono::milliseconds kSecondTry{50};

// Returns false as soon as every address of the name has refused: gRPC itself would keep trying
// until the deadline, while the next server could be asked.
bool IsConnected(grpc::Channel& channel, std::chrono::system_clock::time_point deadline) {
  while (true) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
    if (!channel.WaitForStateChange(state, deadline)) return false;
  }
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

absl::StatusOr<std::shared_ptr<Connection>> ConnectUnix(const std::string& socket_path) {
  if (AfterFork()) return RefuseAfterFork();
  ASSIGN_OR_RETURN(const int fd, ConnectSocket(socket_path));
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
    close(fd);
    return Error(absl::StatusCode::kPermissionDenied, "the server at ", socket_path,
                 " belongs to another user");
  }
  grpc_process = getpid();
  return MakeConnection(
      grpc::CreateCustomInsecureChannelFromFd("hpu-compile-server", fd, Arguments(kUnixPings)));
}

absl::StatusOr<std::shared_ptr<Connection>> Connect(const Endpoint& endpoint, const Access& access,
                                                    std::chrono::milliseconds timeout) {
  if (endpoint.kind == Endpoint::Kind::kUnix) return ConnectUnix(endpoint.target);
  if (AfterFork()) return RefuseAfterFork();
  ASSIGN_OR_RETURN(const auto credentials, Credentials(endpoint, access));
  grpc_process = getpid();
  const auto deadline = std::chrono::system_clock::now() + timeout;
  // A single refusal means little if hundreds of clients connect to the server at once; two are an
  // answer.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(kSecondTry);
    grpc::ChannelArguments arguments = Arguments(kNetworkPings);
    // Without this the second channel would get the first one's connection, with its pause.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    auto channel = grpc::CreateCustomChannel("dns:" + endpoint.target, credentials, arguments);
    if (IsConnected(*channel, deadline)) return MakeConnection(std::move(channel));
    if (std::chrono::system_clock::now() + kSecondTry >= deadline) break;
  }
  return ServerUnavailable(Error(absl::StatusCode::kUnavailable, "no compile server at ",
                                 ToText(endpoint), " within ", timeout.count(), " ms",
                                 endpoint.kind == Endpoint::Kind::kTls
                                     ? " (nobody listens there, or a certificate is refused)"
                                     : ""));
}

}  // namespace hpu::client
