#include "compiler_server/service/service_manager.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

// The side of the manager: a socket at `path`, whose name in NOTIFY_SOCKET is `name`.
class Manager {
 public:
  Manager(const std::string& path, const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }
  std::string Received() const {
    char text[64];
    const ssize_t size = recv(fd_, text, sizeof(text), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(text, static_cast<size_t>(size));
  }

 private:
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(ServiceManager, HearsTheState) {
  const store::TemporaryFolder folder;
  const std::string path = folder.path("notify");
  const Manager manager(path, path);
  EXPECT_TRUE(TellServiceManager("READY=1").ok());
  EXPECT_EQ(manager.Received(), "READY=1");
  EXPECT_EQ(manager.Received(), "nothing");
}

TEST(ServiceManager, MayListenOutsideTheFileSystem) {
  const std::string name = "hpu-test-" + std::to_string(getpid());
  const Manager manager(std::string(1, '\0') + name, "@" + name);
  EXPECT_TRUE(TellServiceManager("STOPPING=1").ok());
  EXPECT_EQ(manager.Received(), "STOPPING=1");
}

TEST(ServiceManager, IsNotNeeded) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(TellServiceManager("READY=1").ok());
  setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  EXPECT_THAT(ToText(TellServiceManager("READY=1")),
              testing::HasSubstr("UNAVAILABLE: telling the service manager at /no/such/socket"));
  setenv("NOTIFY_SOCKET", std::string(200, 'x').c_str(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(TellServiceManager("READY=1")));
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace hpu::server
