#include "compiler_server/service/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace hpu::server {

absl::Status TellServiceManager(const std::string& state) {
  const char* given = std::getenv("NOTIFY_SOCKET");
  if (given == nullptr || *given == '\0') return absl::OkStatus();
  const std::string path = given;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("NOTIFY_SOCKET is too long: ", path);
  }
  path.copy(address.sun_path, path.size());
  // "@name" is an abstract socket, which is in no file system and whose name begins with a zero
  // byte.
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool sent = fd >= 0 && sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                      reinterpret_cast<const sockaddr*>(&address),
                                      size) == static_cast<ssize_t>(state.size());
  const int error = errno;
  if (fd >= 0) close(fd);
  if (sent) return absl::OkStatus();
  return Error(absl::StatusCode::kUnavailable, "telling the service manager at ", path, ": ",
               std::strerror(error));
}

}  // namespace hpu::server
