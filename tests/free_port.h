// Ports for the servers of tests.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/status.h"

namespace hpu {

// Returns whether a server could listen on the port of the loopback now.
inline bool CanListen(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const bool free = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return free;
}

// Returns a port on which nobody listens. The port 10,000 above it, where a node of a Redis cluster
// has its bus, is free as well. Both lie below the ports that Linux gives to connections (from
// 32,768 on), so that no connection takes one before the server does. Calls in one process give
// different ports, and processes begin at different ones.
inline uint16_t FreePort() {
  static std::atomic<uint32_t> next{static_cast<uint32_t>(getpid()) * 211};
  for (int tries = 0; tries < 10'000; ++tries) {
    const auto port = static_cast<uint16_t>(10'000 + next++ % 10'000);
    if (CanListen(port) && CanListen(port + 10'000)) return port;
  }
  HPU_CHECK(false, "no port is free");
  return 0;
}

}  // namespace hpu
