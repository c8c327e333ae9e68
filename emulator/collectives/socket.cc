#include "emulator/collectives/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

namespace hpu::emulator {
namespace {

constexpr std::chrono::milliseconds kRetryTime{20};

int MillisecondsUntil(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

absl::Status SystemError(const std::string& what) {
  return Error(absl::StatusCode::kUnavailable, what, ": ", std::strerror(errno));
}

// Returns once the socket is ready for `events`.
absl::Status WaitReady(const Socket& socket, short events, Deadline deadline) {
  for (;;) {
    pollfd ready = {socket.descriptor(), events, 0};
    const int count = poll(&ready, 1, MillisecondsUntil(deadline));
    if (count > 0) return absl::OkStatus();
    if (count < 0 && errno != EINTR) return SystemError("poll");
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error(absl::StatusCode::kDeadlineExceeded, "the other side did not answer in time");
    }
  }
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool Fits(std::string_view interface, std::string_view wanted) {
  if (wanted.starts_with('=')) return interface == wanted.substr(1);
  return interface.starts_with(wanted);
}

absl::Status TryConnect(const SocketAddress& address, Deadline deadline, Socket* connected) {
  Socket made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open()) return SystemError("socket");
  if (connect(made.descriptor(), reinterpret_cast<const sockaddr*>(&address.storage),
              address.length) != 0) {
    if (errno != EINPROGRESS) return SystemError("connect");
    RETURN_IF_ERROR(WaitReady(made, POLLOUT, deadline));
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(made.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      errno = error;
      return SystemError("connect");
    }
  }
  *connected = std::move(made);
  return absl::OkStatus();
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = other.Take();
  }
  return *this;
}

void Socket::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

int Socket::Take() { return std::exchange(descriptor_, -1); }

absl::StatusOr<SocketAddress> ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    return InvalidArgument("\"", text, "\" is not host:port");
  }
  std::string host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(host.c_str(), text.c_str() + colon + 1, &hints, &found);
  if (result != 0) return InvalidArgument("\"", text, "\": ", gai_strerror(result));
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

std::string ToText(const SocketAddress& address) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address.storage), address.length, host,
              sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  const bool is_ipv6 = address.storage.ss_family == AF_INET6;
  return (is_ipv6 ? "[" : "") + std::string(host) + (is_ipv6 ? "]:" : ":") + port;
}

absl::StatusOr<SocketAddress> InterfaceAddress(const std::string& names) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return SystemError("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  const auto find = [&](const auto& wanted) -> const ifaddrs* {
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
      if ((each->ifa_flags & IFF_UP) != 0 && wanted(*each)) return each;
    }
    return nullptr;
  };
  const ifaddrs* found = nullptr;
  for (const std::string& wanted : Split(names)) {
    found = find([&](const ifaddrs& each) { return Fits(each.ifa_name, wanted); });
    if (found != nullptr) break;
  }
  if (names.empty()) {
    found = find([](const ifaddrs& each) { return (each.ifa_flags & IFF_LOOPBACK) == 0; });
    if (found == nullptr) found = find([](const ifaddrs&) { return true; });
  }
  if (found == nullptr) {
    return NotFound("HCCL_SOCKET_IFNAME=", names,
                    ": no network interface of this name is up with an IPv4 address");
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ifa_addr, sizeof(sockaddr_in));
  address.length = sizeof(sockaddr_in);
  return address;
}

absl::StatusOr<Socket> Listen(const SocketAddress& address, SocketAddress* bound) {
  Socket made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open()) return SystemError("socket");
  const int yes = 1;
  setsockopt(made.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (bind(made.descriptor(), reinterpret_cast<const sockaddr*>(&address.storage),
           address.length) != 0 ||
      listen(made.descriptor(), SOMAXCONN) != 0) {
    return SystemError("rank 0 cannot listen on " + ToText(address));
  }
  bound->length = sizeof(bound->storage);
  getsockname(made.descriptor(), reinterpret_cast<sockaddr*>(&bound->storage), &bound->length);
  return made;
}

absl::StatusOr<Socket> Connect(const SocketAddress& address, Deadline deadline) {
  for (;;) {
    Socket connected;
    const absl::Status status = TryConnect(address, deadline, &connected);
    if (status.ok()) {
      Prepare(connected);
      return connected;
    }
    if (std::chrono::steady_clock::now() + kRetryTime >= deadline) {
      return Error(absl::StatusCode::kDeadlineExceeded, "rank 0 was not reached at ",
                   ToText(address), " (", status.message(), ")");
    }
    std::this_thread::sleep_for(kRetryTime);
  }
}

void Prepare(const Socket& socket) {
  const int yes = 1;
  setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  fcntl(socket.descriptor(), F_SETFL, fcntl(socket.descriptor(), F_GETFL) | O_NONBLOCK);
}

absl::Status ReadAll(const Socket& socket, void* data, size_t bytes, Deadline deadline) {
  auto* place = static_cast<uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t count = recv(socket.descriptor(), place, bytes, 0);
    if (count > 0) {
      place += count;
      bytes -= static_cast<size_t>(count);
      continue;
    }
    if (count == 0) return Error(absl::StatusCode::kUnavailable, "the connection was closed");
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SystemError("the connection failed");
    RETURN_IF_ERROR(WaitReady(socket, POLLIN, deadline));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(const Socket& socket, const void* data, size_t bytes, Deadline deadline) {
  const auto* place = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const ssize_t count = send(socket.descriptor(), place, bytes, MSG_NOSIGNAL);
    if (count >= 0) {
      place += count;
      bytes -= static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return SystemError("the connection failed");
    RETURN_IF_ERROR(WaitReady(socket, POLLOUT, deadline));
  }
  return absl::OkStatus();
}

}  // namespace hpu::emulator
