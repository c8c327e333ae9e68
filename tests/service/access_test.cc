// Tests which processes may talk to the server, and what it trusts.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/container.h"
#include "compiler_server/service/queue/request_limits.h"
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

// A connection of its own to a unix socket, which is closed with the object.
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
  // Returns 1 if the server sends a byte first, 0 if it hung up, and -1 if nothing came for a long
  // time.
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
  // These modes alone would keep others out.
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
  client::RpcClient client(client::LocalServer(path));
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
  client::RpcClient client(client::LocalServer(options_.socket_path, other));
  EXPECT_TRUE(absl::IsPermissionDenied(
      client.Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status()));
}

TEST(RequestLimits, EveryTextHasALimitThatIsTold) {
  const auto refusal = [](const std::function<void(wire::CompileRequest&)>& change) {
    wire::CompileRequest request;
    request.set_graph("graph");
    change(request);
    return ToText(CheckLimits(request));
  };
  const std::string long_name(257, 'x');
  EXPECT_EQ(refusal([](auto& r) { r.clear_graph(); }),
            "INVALID_ARGUMENT: the request carries no graph");
  EXPECT_EQ(refusal([&](auto& r) { r.set_device_kind(long_name); }),
            "INVALID_ARGUMENT: device_kind has 257 bytes; at most 256 are taken");
  EXPECT_EQ(refusal([&](auto& r) { r.set_isa_level(long_name); }),
            "INVALID_ARGUMENT: isa_level has 257 bytes; at most 256 are taken");
  EXPECT_EQ(refusal([&](auto& r) { r.add_options()->set_name(long_name); }),
            "INVALID_ARGUMENT: an option's name has 257 bytes; at most 256 are taken");
  EXPECT_EQ(refusal([](auto& r) {
              r.add_options()->set_name("a");
              r.mutable_options(0)->set_value(std::string(4097, 'x'));
            }),
            "INVALID_ARGUMENT: option a has 4097 bytes; at most 4096 are taken");
  EXPECT_EQ(refusal([](auto& r) {
              for (int i = 0; i < 65; ++i) r.add_options()->set_name("a");
            }),
            "INVALID_ARGUMENT: the request has 65 options; at most 64 are taken");
  EXPECT_EQ(refusal([&](auto& r) { r.mutable_front_end()->add_factors()->set_name(long_name); }),
            "INVALID_ARGUMENT: a key factor's name has 257 bytes; at most 256 are taken");
  EXPECT_EQ(refusal([](auto& r) {
              r.mutable_front_end()->add_factors()->set_value(std::string((1 << 19) + 1, 'x'));
            }),
            "INVALID_ARGUMENT: the list of key factors has 524289 bytes; at most 524288 are taken");
  EXPECT_EQ(refusal([&](auto& r) { r.mutable_front_end()->set_label(long_name); }),
            "INVALID_ARGUMENT: the label has 257 bytes; at most 256 are taken");
  EXPECT_EQ(refusal([](auto&) {}), "OK");
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
  const std::string good = GraphThatSays("quick");
  for (uint64_t key = 10; key < 200; ++key) {
    call = CallFor(key, "");
    call.graph = good;
    for (int n = 0; n < 3; ++n) {
      call.graph[kContainerHead + random() % (good.size() - kContainerHead)] =
          static_cast<char>(random());
    }
    // The checksum is right, so that the damage reaches the worker.
    const std::span covered(reinterpret_cast<const uint8_t*>(call.graph.data()),
                            call.graph.size() - sizeof(Digest));
    const Digest digest = Sha256(covered);
    std::ranges::copy(digest, call.graph.end() - sizeof(Digest));
    const absl::Status status =
        Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(Counter("compile.worker_losses"), 0u);
}

}  // namespace
}  // namespace hpu::server
