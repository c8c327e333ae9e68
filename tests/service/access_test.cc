// Who may talk to the server, and what it believes.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <random>

#include "program/program.h"
#include "tests/service/service_testing.h"

namespace hpu::server {
namespace {

using AccessTest = ServiceTest;

TEST_F(AccessTest, OneServerPerSocketAndOnlyInAPrivateFolder) {
  EXPECT_TRUE(absl::IsAlreadyExists(CompileServer::Start(options_).status()));
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  options_.socket_path = folder_.path("second.sock");
  EXPECT_TRUE(absl::IsFailedPrecondition(CompileServer::Start(options_).status()));
}

// An own connection to a unix socket; closed with the object.
class RawConnection {
 public:
  explicit RawConnection(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const timeval patience{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  bool connected() const { return connected_; }
  // What the server says first: 1 = a byte, 0 = it hung up, -1 = nothing for a long time.
  ssize_t FirstByte() const {
    char byte = 0;
    return read(fd_, &byte, 1);
  }

 private:
  const int fd_;
  bool connected_ = false;
};

TEST_F(AccessTest, AnotherUsersConnectionIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  // The modes that would keep others out by themselves.
  ASSERT_EQ(chmod(folder_.path().c_str(), 0711), 0);
  ASSERT_EQ(chmod(options_.socket_path.c_str(), 0666), 0);
  {
    const store::AsOtherUser other;
    const RawConnection connection(options_.socket_path);
    ASSERT_TRUE(connection.connected());
    EXPECT_EQ(connection.FirstByte(), 0);
  }
  EXPECT_EQ(RawConnection(options_.socket_path).FirstByte(), 1) << "gRPC's settings";
  EXPECT_TRUE(Client()->Hello(kNoInterrupt).ok());
}

TEST_F(AccessTest, AServerOfAnotherUserIsToldNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_.path("other.sock");
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  {
    const store::AsOtherUser other;
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener, 1), 0);
  }
  client::RpcClient client({path, "", kTimeout});
  EXPECT_EQ(ToText(client.Hello(kNoInterrupt).status()),
            "PERMISSION_DENIED: the server at " + path + " belongs to another user");
  const int accepted = accept(listener, nullptr, nullptr);
  char byte = 0;
  EXPECT_EQ(read(accepted, &byte, 1), 0) << "the client says nothing and hangs up";
  close(accepted);
  close(listener);
}

TEST_F(AccessTest, AClientThatTrustsAnotherKeyGetsNothing) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  const std::string other = folder_.path("other.pub");
  ASSERT_TRUE(store::WritePublicKey(other, store::TestKey().public_key()).ok());
  client::RpcClient client({options_.socket_path, other, kTimeout});
  EXPECT_TRUE(absl::IsPermissionDenied(client.Get(KeyOf(1), kNoInterrupt).status()));
}

TEST_F(AccessTest, MalformedRequestsAreRefused) {
  client::CompileCall call = CallFor(1, "quick");
  call.graph = "";
  EXPECT_TRUE(absl::IsInvalidArgument(
      Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status()));
  call.graph.assign(kMaxGraphBytes + 1, 'x');
  const absl::Status large = Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  std::mt19937 random(5);
  const std::string good = GraphNamed("quick");
  for (uint64_t key = 10; key < 200; ++key) {
    call = CallFor(key, "");
    call.graph = good;
    for (int n = 0; n < 3; ++n) call.graph[random() % good.size()] = static_cast<char>(random());
    const absl::Status status =
        Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(Counter("compile.worker_losses"), 0u);
}

}  // namespace
}  // namespace hpu::server
