#include "recipe_store/remote_cache/remote_cache_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace hpu::store {
namespace {

constexpr std::string_view kTls = "grpcs://";
constexpr std::string_view kPlain = "grpc://";
constexpr size_t kMaxHostBytes = 253;  // of a DNS name
constexpr size_t kMaxInstanceBytes = 256;
constexpr char kForms[] = "; write grpcs://HOST:PORT, or grpc://HOST:PORT on a private network";
// The name of a byte stream goes on with this after the instance.
constexpr std::string_view kReserved[] = {"blobs",           "uploads",    "actions",
                                          "actionResults",   "operations", "capabilities",
                                          "compressed-blobs"};

bool IsVisible(char c) { return c > ' ' && c < 0x7f; }

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && parsed == end && port != 0;
}

absl::Status CheckInstance(const std::string& instance) {
  if (instance.size() > kMaxInstanceBytes || !std::ranges::all_of(instance, IsVisible)) {
    return InvalidArgument("remote cache instance \"", instance, "\" must have at most ",
                           kMaxInstanceBytes, " visible ASCII characters");
  }
  for (size_t begin = 0; begin < instance.size();) {
    const size_t end = std::min(instance.find('/', begin), instance.size());
    const std::string_view part = std::string_view(instance).substr(begin, end - begin);
    if (part.empty() || end + 1 == instance.size() || std::ranges::count(kReserved, part) != 0) {
      return InvalidArgument("remote cache instance \"", instance, "\" has an empty part, or \"",
                             std::string(part), "\", which means something else in resource names");
    }
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status CheckAccess(const Access& access, bool tls) {
  if (access.certificate_file.empty() != access.key_file.empty()) {
    return InvalidArgument("a remote cache's client certificate and its key belong together");
  }
  if (tls) return absl::OkStatus();
  if (!access.ca_file.empty() || !access.certificate_file.empty()) {
    return InvalidArgument("certificates mean nothing to a remote cache at grpc://; use grpcs://");
  }
  if (!access.token_file.empty()) {
    return InvalidArgument("a token would cross the network in the clear to a remote cache at ",
                           "grpc://; use grpcs://");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RemoteCacheAddress> ParseRemoteCacheAddress(const std::string& text) {
  RemoteCacheAddress address;
  address.tls = text.starts_with(kTls);
  if (!address.tls && !text.starts_with(kPlain)) {
    return InvalidArgument("remote cache address \"", text, "\" has no scheme", kForms);
  }
  address.target = text.substr((address.tls ? kTls : kPlain).size());
  const size_t colon = address.target.rfind(':');
  if (colon == std::string::npos || !IsPort(std::string_view(address.target).substr(colon + 1))) {
    return InvalidArgument("remote cache address \"", text, "\" has no port from 1 to 65535",
                           kForms);
  }
  const std::string host = address.target.substr(0, colon);
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (host.empty() || host.size() > kMaxHostBytes || !std::ranges::all_of(host, IsVisible) ||
      host.find_first_of("/@,") != std::string::npos ||
      (!bracketed && host.find_first_of("[]:") != std::string::npos)) {
    return InvalidArgument("remote cache address \"", text, "\" has no usable host (IPv6 addresses",
                           " stand in brackets)", kForms);
  }
  return address;
}

absl::Status CheckRemoteCacheOptions(const RemoteCacheOptions& options) {
  ASSIGN_OR_RETURN(const RemoteCacheAddress address, ParseRemoteCacheAddress(options.address));
  RETURN_IF_ERROR(CheckInstance(options.instance));
  RETURN_IF_ERROR(CheckAccess(options.access, address.tls));
  if (options.timeout.count() <= 0 || options.retry_after.count() <= 0 ||
      options.max_retry_after < options.retry_after || options.avoid_bad_for.count() < 0 ||
      options.min_bytes_per_second == 0 || options.max_entry_bytes == 0) {
    return InvalidArgument("remote cache time and size limits must be above 0, max_retry_after not",
                           " below retry_after");
  }
  return absl::OkStatus();
}

}  // namespace hpu::store
