// Connecting to a server over the network: what one refusal means, and what two mean.
#include "compile_client/connection.h"

#include <arpa/inet.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/eventually.h"

namespace hpu::client {
namespace {

using std::chrono::milliseconds;

// Closes its first connections and serves the later ones.
class RefusingServer {
 public:
  explicit RefusingServer(int refused) : refused_(refused) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    server_ = grpc::ServerBuilder().BuildAndStart();
    thread_ = std::thread([this] { Accept(); });
  }
  ~RefusingServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  RefusingServer(const RefusingServer&) = delete;

  Endpoint endpoint() const { return {Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(port_)}; }
  int connections() const { return connections_; }

 private:
  void Accept() {
    for (int fd = 0;
         (fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
      if (connections_++ < refused_) {
        close(fd);
      } else {
        grpc::AddInsecureChannelFromFd(server_.get(), fd);
      }
    }
  }

  const int refused_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::unique_ptr<grpc::Server> server_;
  std::thread thread_;
};

TEST(Connection, IsTriedASecondTime) {
  const RefusingServer server(1);
  const auto connection = Connect(server.endpoint(), {}, kHangLimit);
  EXPECT_TRUE(connection.ok()) << connection.status();
  EXPECT_EQ(server.connections(), 2);
}

TEST(Connection, IsNotTriedAThirdTime) {
  const RefusingServer server(1000);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status refused = Connect(server.endpoint(), {}, 2 * kHangLimit).status();
  EXPECT_TRUE(IsServerUnavailable(refused)) << refused;
  EXPECT_EQ(server.connections(), 2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kHangLimit) << "the next is asked";
}

TEST(Connection, HasNoSecondTryWhereNoTimeIsLeft) {
  const RefusingServer server(1000);
  EXPECT_TRUE(IsServerUnavailable(Connect(server.endpoint(), {}, milliseconds(45)).status()));
  EXPECT_LE(server.connections(), 1);
}

}  // namespace
}  // namespace hpu::client
