#include "recipe_store/circuit_breaker.h"

#include <algorithm>
#include <utility>

namespace hpu::store {

bool CircuitBreaker::Allow(Time now) {
  if (!open()) return true;
  if (now < retry_at_) return false;
  retry_at_ = now + times_.trial;
  trying_ = true;
  return true;
}

bool CircuitBreaker::Succeeded() {
  trying_ = false;
  return std::exchange(pause_, std::chrono::milliseconds(0)).count() > 0;
}

bool CircuitBreaker::Failed(Time now, uint64_t random) {
  const bool opened = !open();
  // Calls that were under way when it opened fail as well, and that is the same failure.
  if (!opened && !std::exchange(trying_, false)) return false;
  pause_ = opened ? times_.first : std::min(pause_ * 2, times_.longest);
  const auto spread = static_cast<uint64_t>(pause_.count()) / 4 + 1;
  retry_at_ = now + pause_ + std::chrono::milliseconds(random % spread);
  return opened;
}

}  // namespace hpu::store
