#include "compiler_server/service/doors/network.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "compiler_server/service/doors/tls_door.h"

namespace hpu::server {

bool HasTls(const NetworkOptions& options) {
  return std::ranges::any_of(options.listen, [](const client::Endpoint& at) {
    return at.kind == client::Endpoint::Kind::kTls;
  });
}

absl::Status CheckNetwork(const NetworkOptions& options) {
  if (options.listen.empty()) return absl::OkStatus();
  if (options.callers_file.empty()) {
    return InvalidArgument("--listen needs --callers: a file that says who may call (",
                           "docs/operations.md)");
  }
  using client::Endpoint;
  for (const Endpoint& endpoint : options.listen) {
    if (endpoint.kind == Endpoint::Kind::kUnix) {
      return InvalidArgument("--listen ", client::ToText(endpoint), ": a unix socket is --socket");
    }
  }
  if (!HasTls(options)) return absl::OkStatus();
  if (options.certificate_file.empty() || options.key_file.empty()) {
    return InvalidArgument("--listen tls://... needs --tls-certificate and --tls-key");
  }
  return TlsDoor::Make(options).status();
}

std::string WhyNotListening(const client::Endpoint& endpoint) {
  const size_t colon = endpoint.target.rfind(':');
  std::string host = endpoint.target.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  const std::string port = endpoint.target.substr(colon + 1);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return client::ToText(endpoint) + ": " + gai_strerror(error);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const int on = 1;
    // As in gRPC, the remains of an old connection do not prevent listening.
    const bool bound = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                       bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, 1) == 0;
    const int failure = errno;
    if (fd >= 0) close(fd);
    if (!bound) return client::ToText(endpoint) + ": " + std::strerror(failure);
  }
  return "";
}

}  // namespace hpu::server
