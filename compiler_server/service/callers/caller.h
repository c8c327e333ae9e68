// A Caller identifies who calls the server and what the caller may do.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hpu::server {

// The roles say what a caller may do. They are a set of bits.
enum class Role : uint8_t {
  kRead = 1,     // fetch programs, list those of the own tenant
  kCompile = 2,  // have programs compiled
  kAdmin = 4,    // see statistics and the programs of all tenants, look after the store
  kOwner = 8,    // stop the server: only its own user on its own host, never over the network
};

struct Caller {
  std::string name;    // for the log
  std::string tenant;  // the tenant whose aliases the caller sees
  uint8_t roles = 0;
  std::string door;        // the listener that admitted it
  std::string request_id;  // of this call, as client and server log it

  bool Has(Role role) const { return (roles & static_cast<uint8_t>(role)) != 0; }
};

// Callers is one way of finding out who calls. Implementations are thread-safe.
class Callers {
 public:
  virtual ~Callers() = default;
  // Returns UNAUTHENTICATED with what is missing.
  virtual absl::StatusOr<Caller> Identify(const grpc::ServerContext& context) const = 0;
};

// Whoever can connect to the unix socket is the server's user (UnixListener ensures that).
class OwnUser final : public Callers {
 public:
  explicit OwnUser(std::string tenant)
      : caller_{"own user", std::move(tenant), /*roles: all=*/15, "", ""} {}
  absl::StatusOr<Caller> Identify(const grpc::ServerContext&) const override { return caller_; }

 private:
  const Caller caller_;
};

}  // namespace hpu::server
