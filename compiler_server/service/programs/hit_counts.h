// Counts in this server's memory how often each stored program was handed out. It shows people what
// is used; eviction has a clock of its own in the store.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/hash.h"

namespace hpu::server {

class HitCounts {
 public:
  void Add(const Digest& content_key) {
    std::lock_guard lock(mutex_);
    if (counts_.size() == kMaxPrograms && counts_.count(content_key) == 0) return;
    ++counts_[content_key];
  }
  uint64_t Of(const Digest& content_key) const {
    std::lock_guard lock(mutex_);
    const auto found = counts_.find(content_key);
    return found == counts_.end() ? 0 : found->second;
  }

 private:
  // Hits of programs beyond this number are not counted.
  static constexpr size_t kMaxPrograms = 65536;

  mutable std::mutex mutex_;
  std::map<Digest, uint64_t> counts_;  // guarded by mutex_
};

}  // namespace hpu::server
