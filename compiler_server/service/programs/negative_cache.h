// Remembers the compiler's verdicts that will not change while this server runs: UNIMPLEMENTED and
// INVALID_ARGUMENT. It never remembers timeouts, cancellations, lost workers or lack of memory.
// Every key contains the compiler's build id and the memory ends with the server, so a new compiler
// is asked again.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "base/hash.h"
#include "base/status.h"

namespace hpu::server {

class NegativeCache {
 public:
  using Clock = std::chrono::steady_clock;

  NegativeCache(size_t max_entries, std::chrono::seconds ttl)
      : max_entries_(max_entries), ttl_(ttl) {}

  // Keeps `failure` if it has one of the two codes. The oldest entry is dropped when there are too
  // many.
  void Remember(const Digest& key, const absl::Status& failure, Clock::time_point now);
  std::optional<absl::Status> Find(const Digest& key, Clock::time_point now);
  size_t size() const;

 private:
  struct Verdict {
    absl::Status failure;
    Clock::time_point until;
  };

  const size_t max_entries_;
  const std::chrono::seconds ttl_;
  mutable std::mutex mutex_;
  std::map<Digest, Verdict> verdicts_;  // guarded by mutex_
};

}  // namespace hpu::server
