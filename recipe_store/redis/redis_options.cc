#include "recipe_store/redis/redis_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace hpu::store {
namespace {

constexpr size_t kMaxEndpoints = 64;
constexpr size_t kMaxHostBytes = 253;  // of a DNS name
constexpr size_t kMaxPrefixBytes = 64;
constexpr std::string_view kSentinel = "sentinel:";
constexpr char kForms[] =
    "; write host:port, several separated by commas, or sentinel:NAME@host:port,...";

bool IsVisible(char c) { return c > ' ' && c < 0x7f; }

}  // namespace

std::string RedisEndpoint::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

absl::StatusOr<RedisEndpoint> ParseRedisEndpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return InvalidArgument("Redis address \"", text, "\" has no port", kForms);
  }
  RedisEndpoint endpoint;
  endpoint.host = text.substr(0, colon);
  if (endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']') {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  } else if (endpoint.host.find(':') != std::string::npos) {
    return InvalidArgument("Redis address \"", text, "\": an IPv6 address goes into brackets",
                           " ([::1]:6379)");
  }
  if (endpoint.host.empty() || endpoint.host.size() > kMaxHostBytes ||
      !std::ranges::all_of(endpoint.host, IsVisible) ||
      endpoint.host.find_first_of("[]@/") != std::string::npos) {
    return InvalidArgument("Redis address \"", text, "\" has no usable host", kForms);
  }
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
  if (error != std::errc() || parsed != end || endpoint.port == 0) {
    return InvalidArgument("Redis address \"", text, "\": \"", text.substr(colon + 1),
                           "\" is no port from 1 to 65535");
  }
  return endpoint;
}

absl::StatusOr<RedisAddresses> ParseRedisAddresses(const std::string& text) {
  RedisAddresses addresses;
  std::string rest = text;
  if (rest.starts_with(kSentinel)) {
    const size_t at = rest.find('@');
    if (at == std::string::npos || at == kSentinel.size()) {
      return InvalidArgument("Redis addresses \"", text, "\" name no master", kForms);
    }
    addresses.master_name = rest.substr(kSentinel.size(), at - kSentinel.size());
    rest = rest.substr(at + 1);
  }
  for (size_t begin = 0; begin <= rest.size();) {
    const size_t end = std::min(rest.find(',', begin), rest.size());
    const std::string part = rest.substr(begin, end - begin);
    if (part.empty())
      return InvalidArgument("Redis addresses \"", text, "\" have an empty part", kForms);
    ASSIGN_OR_RETURN(RedisEndpoint endpoint, ParseRedisEndpoint(part));
    addresses.endpoints.push_back(std::move(endpoint));
    begin = end + 1;
  }
  if (addresses.endpoints.size() > kMaxEndpoints) {
    return InvalidArgument("Redis addresses: ", addresses.endpoints.size(), " are given; at most ",
                           kMaxEndpoints, " are allowed");
  }
  return addresses;
}

absl::Status CheckRedisOptions(const RedisOptions& options) {
  RETURN_IF_ERROR(ParseRedisAddresses(options.addresses).status());
  if (options.prefix.empty() || options.prefix.size() > kMaxPrefixBytes ||
      !std::ranges::all_of(options.prefix, IsVisible)) {
    return InvalidArgument("Redis prefix \"", options.prefix, "\" must have 1 to ", kMaxPrefixBytes,
                           " visible ASCII characters");
  }
  if (!options.user.empty() && options.password.empty()) {
    return InvalidArgument("a Redis user is given without a password");
  }
  if (options.connect_timeout.count() <= 0 || options.command_timeout.count() <= 0 ||
      options.retry_after.count() <= 0 || options.max_retry_after < options.retry_after ||
      options.min_bytes_per_second == 0 || options.max_entry_bytes == 0) {
    return InvalidArgument("Redis time and size limits must be above 0, max_retry_after not below",
                           " retry_after");
  }
  if (options.entry_ttl.count() < 0) return InvalidArgument("the Redis entry_ttl is negative");
  return absl::OkStatus();
}

}  // namespace hpu::store
