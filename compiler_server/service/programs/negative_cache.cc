#include "compiler_server/service/programs/negative_cache.h"

#include <algorithm>

namespace hpu::server {

void NegativeCache::Remember(const Digest& key, const absl::Status& failure,
                             Clock::time_point now) {
  if (!absl::IsUnimplemented(failure) && !absl::IsInvalidArgument(failure)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  verdicts_[key] = {failure, now + ttl_};
  if (verdicts_.size() <= max_entries_) return;
  verdicts_.erase(std::ranges::min_element(
      verdicts_, {}, [](const auto& verdict) { return verdict.second.until; }));
}

std::optional<absl::Status> NegativeCache::Find(const Digest& key, Clock::time_point now) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = verdicts_.find(key);
  if (found == verdicts_.end()) return std::nullopt;
  if (found->second.until > now) return found->second.failure;
  verdicts_.erase(found);
  return std::nullopt;
}

size_t NegativeCache::size() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return verdicts_.size();
}

}  // namespace hpu::server
