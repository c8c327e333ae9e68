// The address of a compile server, as users write it:
//   unix:/path/of/socket    this host, this user
//   tcp://127.0.0.1:8471    this host, without protection: loopback addresses and localhost only
//   tls://host:8471         anywhere; the host's name or address is checked against the certificate
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hpu::client {

struct Endpoint {
  enum class Kind : uint8_t { kUnix, kTcp, kTls };

  Kind kind = Kind::kUnix;
  std::string target;  // the socket's path, or HOST:PORT

  bool operator==(const Endpoint&) const = default;
};

using hpu::ToText;  // for statuses
std::string ToText(const Endpoint& endpoint);
// Joins them with commas.
std::string ToText(const std::vector<Endpoint>& endpoints);

// Returns INVALID_ARGUMENT with the text and what is wrong with it.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
// Parses one or more addresses, separated by commas. Empty parts are ignored.
absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(std::string_view text);

}  // namespace hpu::client
