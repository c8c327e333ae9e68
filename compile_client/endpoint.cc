#include "compile_client/endpoint.h"

#include <arpa/inet.h>

#include <charconv>

namespace hpu::client {
namespace {

struct Scheme {
  std::string_view prefix;
  Endpoint::Kind kind;
};

constexpr Scheme kSchemes[] = {
    {"unix:", Endpoint::Kind::kUnix},
    {"tcp://", Endpoint::Kind::kTcp},
    {"tls://", Endpoint::Kind::kTls},
};

std::string_view HostOf(std::string_view target) {
  std::string_view host = target.substr(0, target.rfind(':'));
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

bool IsPort(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0 && port < 65536;
}

absl::Status CheckHostAndPort(std::string_view target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string_view::npos || !IsPort(target.substr(colon + 1))) {
    return InvalidArgument("it needs a port from 1 to 65535, as in tls://compile.example:8471");
  }
  const std::string_view host = HostOf(target);
  if (host.empty() || host.find('/') != std::string_view::npos) {
    return InvalidArgument("it needs a host, as in tls://compile.example:8471");
  }
  if (host.find(':') != std::string_view::npos && !target.starts_with('[')) {
    return InvalidArgument("an IPv6 address stands in brackets, as in tls://[::1]:8471");
  }
  return absl::OkStatus();
}

absl::Status CheckTarget(const Endpoint& endpoint) {
  if (endpoint.kind == Endpoint::Kind::kUnix) {
    if (endpoint.target.starts_with('/')) return absl::OkStatus();
    return InvalidArgument("it needs an absolute path, as in unix:/run/hpu/server.sock");
  }
  RETURN_IF_ERROR(CheckHostAndPort(endpoint.target));
  if (endpoint.kind == Endpoint::Kind::kTls || IsLoopback(std::string(HostOf(endpoint.target)))) {
    return absl::OkStatus();
  }
  return InvalidArgument("plain tcp:// is for this host only (127.0.0.1, [::1], localhost); use ",
                         "tls://", endpoint.target);
}

}  // namespace

std::string ToText(const Endpoint& endpoint) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.kind == endpoint.kind) return std::string(scheme.prefix) + endpoint.target;
  }
  return endpoint.target;
}

std::string ToText(const std::vector<Endpoint>& endpoints) {
  std::string text;
  for (const Endpoint& endpoint : endpoints) {
    if (!text.empty()) text += ',';
    text += ToText(endpoint);
  }
  return text;
}

absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text) {
  for (const Scheme& scheme : kSchemes) {
    if (!text.starts_with(scheme.prefix)) continue;
    Endpoint endpoint{scheme.kind, std::string(text.substr(scheme.prefix.size()))};
    if (const absl::Status checked = CheckTarget(endpoint); !checked.ok()) {
      return InvalidArgument("compile server address '", text, "': ", checked.message());
    }
    return endpoint;
  }
  return InvalidArgument("compile server address '", text,
                         "': it begins with tls://, tcp:// or unix:");
}

absl::StatusOr<std::vector<Endpoint>> ParseEndpoints(std::string_view text) {
  std::vector<Endpoint> endpoints;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (part.empty()) continue;
    ASSIGN_OR_RETURN(endpoints.emplace_back(), ParseEndpoint(part));
  }
  if (endpoints.empty()) return InvalidArgument("no compile server address is given");
  return endpoints;
}

}  // namespace hpu::client
