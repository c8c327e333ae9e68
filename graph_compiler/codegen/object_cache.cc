#include "graph_compiler/codegen/object_cache.h"

#include <utility>

namespace hpu::graph_compiler {
namespace {

// Room for some thousand kernels of 5 to 40 KB.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;

}  // namespace

ObjectCache& ObjectCache::OfProcess() {
  static auto* cache = new ObjectCache(kMostBytes);
  return *cache;
}

ObjectCache::Object ObjectCache::Find(const Digest& code) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(code);
  if (place == places_.end()) {
    ++counts_.missing;
    return nullptr;
  }
  ++counts_.found;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->object;
}

void ObjectCache::Keep(const Digest& code, Object object) {
  const std::lock_guard lock(mutex_);
  if (object->size() > most_bytes_ || places_.contains(code)) return;
  counts_.bytes += object->size();
  entries_.push_front({code, std::move(object)});
  places_[code] = entries_.begin();
  while (counts_.bytes > most_bytes_) {
    counts_.bytes -= entries_.back().object->size();
    places_.erase(entries_.back().code);
    entries_.pop_back();
  }
}

ObjectCache::Counts ObjectCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace hpu::graph_compiler
