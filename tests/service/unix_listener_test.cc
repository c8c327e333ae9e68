// A socket and the lock file beside it: what others learn about the server from them, and what
// happens when files are removed.
#include "compiler_server/service/doors/unix_listener.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(UnixListener, LockFileSaysAStateAtEveryMoment) {
  store::TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path("").c_str(), 0700), 0);
  const std::string socket = folder.path("s");
  const std::string lock = socket + ".lock";
  const std::string pid = std::to_string(getpid());
  ASSERT_TRUE(UnixListener::Bind(socket).ok());  // the file exists from now on
  EXPECT_EQ(TextOf(lock), pid + " stopping\n");

  std::atomic<bool> done = false;
  std::atomic<int> read = 0;
  std::atomic<int> empty = 0;
  std::thread reader([&] {
    for (; !done; ++read) empty += TextOf(lock).empty() ? 1 : 0;
  });
  for (int times = 0; times < 2000 || read < 2000; ++times) {
    auto listener = UnixListener::Bind(socket);
    ASSERT_TRUE(listener.ok()) << listener.status();
    if (times == 0) {
      EXPECT_EQ(TextOf(lock), pid + " serving\n");
    }
  }
  done = true;
  reader.join();
  EXPECT_EQ(empty, 0) << "of " << read;
  EXPECT_EQ(TextOf(lock), pid + " stopping\n");
}

int Connect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

TEST(UnixListener, WhatIsNoSocketOrLockOfOursStays) {
  store::TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path("").c_str(), 0700), 0);
  const std::string path = folder.path("s");
  const auto refusal = [&] { return ToText(UnixListener::Bind(path).status()); };
  const std::string no_socket =
      "FAILED_PRECONDITION: at the socket's path " + path + " there is something that is no socket";
  std::ofstream(path) << "somebody's";
  EXPECT_EQ(refusal(), no_socket);
  EXPECT_EQ(TextOf(path), "somebody's");
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(refusal(), no_socket);
  ASSERT_EQ(rmdir(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal(), no_socket);
  ASSERT_EQ(unlink(path.c_str()), 0);
  const std::string lock = path + ".lock";
  ASSERT_EQ(unlink(lock.c_str()), 0);
  ASSERT_EQ(mkfifo(lock.c_str(), 0600), 0);
  EXPECT_EQ(refusal(), "UNAVAILABLE: lock file: " + lock +
                           " cannot be read: it is a FIFO and not a regular file");
  ASSERT_EQ(unlink(lock.c_str()), 0);
  EXPECT_EQ(ToText(UnixListener::CheckPath(folder.path(std::string(120, 'x')))).substr(0, 33),
            "FAILED_PRECONDITION: socket path ");
  EXPECT_EQ(refusal(), "OK");
}

TEST(UnixListener, ALostLockCutsNobodyOff) {
  store::TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path("").c_str(), 0700), 0);
  const std::string socket = folder.path("s");
  auto listener = UnixListener::Bind(socket);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const int client = Connect(socket);  // waits to be accepted
  ASSERT_EQ(unlink((socket + ".lock").c_str()), 0);
  const auto restored = (*listener)->Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(*restored);
  EXPECT_EQ(TextOf(socket + ".lock"), std::to_string(getpid()) + " serving\n");
  pollfd state{client, POLLIN, 0};
  EXPECT_EQ(poll(&state, 1, 0), 0) << "the connection was closed";
  close(client);
}

// A server sends its first words of HTTP/2 without a request.
TEST(UnixListener, WhoWaitsWhenTheSocketIsLostIsServed) {
  store::TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path("").c_str(), 0700), 0);
  const std::string socket = folder.path("s");
  grpc::ServerBuilder builder;
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  auto listener = UnixListener::Bind(socket);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<int> clients(100);
  for (int& client : clients) client = Connect(socket);
  (*listener)->Start(server.get());
  ASSERT_EQ(unlink(socket.c_str()), 0);
  const auto restored = (*listener)->Restore();
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_TRUE(*restored);
  clients.push_back(Connect(socket));
  for (const int client : clients) {
    pollfd state{client, POLLIN, 0};
    char word = 0;
    EXPECT_EQ(poll(&state, 1, 5000), 1);
    EXPECT_EQ(read(client, &word, 1), 1) << std::strerror(errno);
    close(client);
  }
  (*listener)->Stop();
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);) {
  }
}

}  // namespace
}  // namespace hpu::server
