#include "compiler_server/service/queue/fair_queue.h"

#include <algorithm>

namespace hpu::server {

void FairQueue::Turns::Erase(const Digest& key, const std::string& tenant) {
  const auto found = tenants_.find(tenant);
  std::erase(found->second, key);
  if (found->second.empty()) tenants_.erase(found);
}

size_t FairQueue::Turns::size_of(const std::string& tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.size();
}

Digest FairQueue::Turns::Pop() {
  auto next = tenants_.upper_bound(last_);
  if (next == tenants_.end()) next = tenants_.begin();
  last_ = next->first;
  const Digest key = next->second.front();
  next->second.pop_front();
  if (next->second.empty()) tenants_.erase(next);
  return key;
}

void FairQueue::Push(const Digest& key, const std::string& tenant, bool warm_up) {
  places_[key] = {tenant, warm_up};
  TurnsOf(warm_up).Push(key, tenant);
}

void FairQueue::Promote(const Digest& key) {
  const auto place = places_.find(key);
  if (place == places_.end() || !place->second.warm_up) return;
  warming_.Erase(key, place->second.tenant);
  waited_for_.Push(key, place->second.tenant);
  place->second.warm_up = false;
}

void FairQueue::Erase(const Digest& key) {
  const auto place = places_.find(key);
  if (place == places_.end()) return;
  TurnsOf(place->second.warm_up).Erase(key, place->second.tenant);
  places_.erase(place);
}

std::optional<Digest> FairQueue::Pop() {
  if (empty()) return std::nullopt;
  const bool warm_up =
      waited_for_.empty() || (!warming_.empty() && since_warm_up_ + 1 >= kWarmUpShare);
  since_warm_up_ = warm_up || warming_.empty() ? 0 : since_warm_up_ + 1;
  const Digest key = TurnsOf(warm_up).Pop();
  places_.erase(key);
  return key;
}

std::vector<Digest> FairQueue::Order() const {
  FairQueue copy(*this);
  std::vector<Digest> order;
  order.reserve(copy.size());
  while (const std::optional<Digest> key = copy.Pop()) order.push_back(*key);
  return order;
}

size_t FairQueue::size_of(const std::string& tenant) const {
  return waited_for_.size_of(tenant) + warming_.size_of(tenant);
}

}  // namespace hpu::server
