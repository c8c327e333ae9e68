// Remembers verdicts of the compiler that will not change while this server runs: UNIMPLEMENTED and
// INVALID_ARGUMENT. Never timeouts, cancellations, lost workers or lack of memory. The compiler's
// build id is part of every key and the memory dies with the server, so a new compiler is asked
// anew.
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

  // Keeps `failure` if it is one of the two; the oldest entry goes when there are too many.
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
