// Lines about those who are refused: one of an address and reason in a while, with the number of
// those that were left out, so that a stranger fills neither log nor disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace hpu::server {

// Thread-safe. Time is passed in.
class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds kInterval{10};
  // Of addresses and reasons; those beyond share one line of an interval.
  static constexpr size_t kMaxKinds = 256;

  // The number of refusals of this kind that were left out since its last line; nothing: leave this
  // one out too.
  std::optional<uint64_t> Add(const std::string& address, const std::string& reason, Time now);

 private:
  struct Kind {
    Time last{};
    uint64_t left_out = 0;
  };

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Kind> kinds_;  // guarded by mutex_
};

// A gRPC peer without what changes with each connection: "ipv4:10.0.0.7", "ipv6:[::1]", "unix:".
std::string AddressOf(const std::string& peer);

}  // namespace hpu::server
