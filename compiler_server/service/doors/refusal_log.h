// Limits the log lines about refused callers to one per address and reason in an interval, with the
// number of refusals that were left out, so that a stranger can fill neither log nor disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace hpu::server {

// Thread-safe. The caller passes the time.
class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kInterval{10};
  // The number of pairs of address and reason that are told apart. All others share one line per
  // interval.
  static constexpr size_t kMaxKinds = 256;

  // Returns the number of refusals of this kind that were left out since its last line, or nothing
  // if this one is to be left out too.
  std::optional<uint64_t> Add(const std::string& address, const std::string& reason, Time now);

 private:
  struct Kind {
    Time last{};
    uint64_t left_out = 0;
  };

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Kind> kinds_;  // guarded by mutex_
};

// Removes from a gRPC peer what changes with each connection: "ipv4:10.0.0.7", "ipv6:[::1]",
// "unix:".
std::string AddressOf(const std::string& peer);

}  // namespace hpu::server
