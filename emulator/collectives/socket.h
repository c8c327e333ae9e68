// TCP connections between ranks: the rendezvous, and the heartbeats after it.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::emulator {

using Deadline = std::chrono::steady_clock::time_point;

// Owns a descriptor.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.Take()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int descriptor() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  void Close();
  int Take();

 private:
  int descriptor_;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

// Reads "host:port" or "[address]:port". Names are looked up.
absl::StatusOr<SocketAddress> ParseAddress(const std::string& text);
std::string ToText(const SocketAddress& address);

// Returns this host's address on the interface that `names` chooses: a comma-separated list of
// prefixes, of which the first that fits counts; "=eth0" means that name only. With no names it is
// the first interface that is up and not the loopback one, else the loopback one.
absl::StatusOr<SocketAddress> InterfaceAddress(const std::string& names);

// Listens on `address`; port 0 means any. `bound` receives the address with its port.
absl::StatusOr<Socket> Listen(const SocketAddress& address, SocketAddress* bound);
// Tries until the deadline, because the listener may come later.
absl::StatusOr<Socket> Connect(const SocketAddress& address, Deadline deadline);
// Prepares an accepted or connected socket: small messages leave at once.
void Prepare(const Socket& socket);

// These return DEADLINE_EXCEEDED, or UNAVAILABLE when the peer has closed the connection.
absl::Status ReadAll(const Socket& socket, void* data, size_t bytes, Deadline deadline);
absl::Status WriteAll(const Socket& socket, const void* data, size_t bytes, Deadline deadline);

}  // namespace hpu::emulator
