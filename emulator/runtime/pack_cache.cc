#include "emulator/runtime/pack_cache.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace hpu::emulator {
namespace {

// The least bytes of a stale copy whose memory is kept; malloc recycles smaller ones well enough.
constexpr uint64_t kFewestBytesKept = 1 << 20;
constexpr uint64_t kLaunchesKept = 1024;

}  // namespace

PackCache::~PackCache() {
  while (!entries_.empty()) Erase(entries_.begin());
}

std::shared_ptr<PackedCopy> PackCache::Get(const PackKey& key, uint64_t packed_bytes, uint64_t now,
                                           std::span<const DeviceRange> others) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second->valid()) {
    Count(counters_->pack_hits);
    found->second->Touch(now);
    return found->second;
  }
  AlignedBuffer buffer = TakeBuffer(key, packed_bytes);
  if (bytes_ + packed_bytes > limit_) EvictDownTo(limit_ - std::min(limit_, packed_bytes), now);
  if (buffer.size() < packed_bytes) buffer = AlignedBuffer(packed_bytes);
  if (buffer.size() < packed_bytes) return nullptr;
  auto copy = std::make_shared<PackedCopy>(key.address, key.bytes, std::move(buffer), others);
  copy->Touch(now);
  // The copy is in the table before it is filled, so that a change of the source in the meantime
  // finds it.
  Insert(key, copy);
  return copy;
}

AlignedBuffer PackCache::TakeBuffer(const PackKey& key, uint64_t bytes) {
  const auto stale = entries_.find(key);
  if (stale == entries_.end()) return {};
  const std::shared_ptr<PackedCopy> copy = stale->second;
  Erase(stale);
  // A holder is a running launch. A launch that takes hold from now on finds the copy invalid and
  // releases it.
  if (copy.use_count() > 1 || copy->bytes() != bytes) return {};
  return std::move(copy->buffer_);
}

void PackCache::Insert(const PackKey& key, const std::shared_ptr<PackedCopy>& copy) {
  const auto entry = entries_.emplace(key, copy).first;
  AddSource(key.address, key.bytes, entry);
  for (const DeviceRange& range : copy->others_) AddSource(range.address, range.bytes, entry);
  bytes_ += copy->bytes();
  size_.store(entries_.size(), std::memory_order_release);
  Count(counters_->packs);
  counters_->pack_bytes.store(bytes_, std::memory_order_relaxed);
  if (bytes_ > counters_->pack_bytes_peak.load(std::memory_order_relaxed)) {
    counters_->pack_bytes_peak.store(bytes_, std::memory_order_relaxed);
  }
}

void PackCache::AddSource(uint64_t address, uint64_t bytes, Entries::iterator entry) {
  by_address_.emplace(address, Source{bytes, entry});
  longest_source_ = std::max(longest_source_, bytes);
}

void PackCache::EraseSource(uint64_t address, Entries::iterator entry) {
  auto [it, end] = by_address_.equal_range(address);
  while (it->second.entry != entry) ++it;
  by_address_.erase(it);
}

void PackCache::Erase(Entries::iterator entry) {
  entry->second->valid_.store(false, std::memory_order_release);
  if (entry->second->source_evicted_.load(std::memory_order_relaxed)) {
    counters_->source_bytes_evicted.fetch_sub(entry->first.bytes, std::memory_order_relaxed);
  }
  bytes_ -= entry->second->bytes();
  EraseSource(entry->first.address, entry);
  for (const DeviceRange& range : entry->second->others_) EraseSource(range.address, entry);
  entries_.erase(entry);
  size_.store(entries_.size(), std::memory_order_release);
  counters_->pack_bytes.store(bytes_, std::memory_order_relaxed);
}

// Copies that the launch at `now` uses stay.
void PackCache::EvictDownTo(uint64_t bytes, uint64_t now) {
  while (bytes_ > bytes) {
    auto oldest = entries_.end();
    uint64_t oldest_use = now;
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      const PackedCopy& copy = *entry->second;
      const uint64_t use =
          copy.valid() ? copy.last_use_.load(std::memory_order_relaxed) : uint64_t{0};
      if (use < oldest_use) {
        oldest = entry;
        oldest_use = use;
      }
    }
    if (oldest == entries_.end()) return;
    if (oldest->second->valid()) Count(counters_->packs_evicted);
    Restore(*oldest->second);
    Erase(oldest);
  }
}

template <typename Visit>
void PackCache::ForOverlapping(uint64_t address, uint64_t bytes, const Visit& visit) {
  const uint64_t first = address > longest_source_ ? address - longest_source_ : 0;
  // Collected first, because the visit may erase several of their sources.
  std::vector<Entries::iterator> found;
  for (auto it = by_address_.lower_bound(first);
       it != by_address_.end() && it->first < address + bytes; ++it) {
    const Source& source = it->second;
    if (it->first + source.bytes <= address) continue;
    if (std::find(found.begin(), found.end(), source.entry) == found.end()) {
      found.push_back(source.entry);
    }
  }
  for (const Entries::iterator entry : found) visit(entry);
}

void PackCache::Drop(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || size_.load(std::memory_order_acquire) == 0) return;
  std::lock_guard lock(mutex_);
  ForOverlapping(address, bytes, [&](Entries::iterator entry) {
    if (entry->second->valid()) Count(counters_->packs_dropped);
    Erase(entry);
  });
}

void PackCache::Rewrite(uint64_t address, uint64_t bytes, uint64_t now) {
  if (bytes == 0 || size_.load(std::memory_order_acquire) == 0) return;
  std::lock_guard lock(mutex_);
  ForOverlapping(address, bytes, [&](Entries::iterator entry) {
    PackedCopy& copy = *entry->second;
    if (copy.valid()) Count(counters_->packs_dropped);
    if (copy.source_evicted_.load(std::memory_order_relaxed) || copy.bytes() < kFewestBytesKept) {
      Erase(entry);
    } else {
      copy.valid_.store(false, std::memory_order_release);
    }
  });
  if (now >= next_forgetting_) ForgetStale(now);
}

// Forgets stale copies whose last use is long ago: their sources are no longer weights.
void PackCache::ForgetStale(uint64_t now) {
  next_forgetting_ = now + kLaunchesKept;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto current = entry++;
    const PackedCopy& copy = *current->second;
    if (!copy.valid() && copy.last_use_.load(std::memory_order_relaxed) + kLaunchesKept <= now) {
      Erase(current);
    }
  }
}

void PackCache::EvictSources(std::span<const std::shared_ptr<PackedCopy>> copies) {
  if (copies.empty()) return;
  std::lock_guard lock(mutex_);
  eviction_epoch_.fetch_add(1);
  if (accesses_.load() != 0) return;
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (const std::shared_ptr<PackedCopy>& copy : copies) {
    if (!copy->valid() || copy->restorer_.function == nullptr ||
        copy->source_evicted_.load(std::memory_order_relaxed)) {
      continue;
    }
    const uint64_t first = (copy->source_ + page - 1) / page * page;
    const uint64_t last = (copy->source_ + copy->source_bytes_) / page * page;
    if (last <= first || madvise(memory_.At(first), last - first, MADV_DONTNEED) != 0) {
      copy->uses_wanted_.store(PackedCopy::kMostUses, std::memory_order_relaxed);
      copy->uses_.store(0, std::memory_order_relaxed);
      continue;
    }
    copy->source_evicted_.store(true, std::memory_order_relaxed);
    Count(counters_->source_bytes_evicted, copy->source_bytes_);
  }
}

void PackCache::MakeResident(uint64_t address, uint64_t bytes) {
  if (bytes == 0 || eviction_epoch() == 0) return;
  std::lock_guard lock(mutex_);
  ForOverlapping(address, bytes, [&](Entries::iterator entry) { Restore(*entry->second); });
}

void PackCache::Restore(PackedCopy& copy) {
  if (!copy.source_evicted_.load(std::memory_order_relaxed)) return;
  void* const operands[] = {copy.data(), memory_.At(copy.source_)};
  copy.restorer_.function(operands, 0, static_cast<int64_t>(copy.restorer_.tasks), nullptr);
  const uint32_t wanted = copy.uses_wanted_.load(std::memory_order_relaxed);
  copy.uses_wanted_.store(std::min(wanted * PackedCopy::kBackoff, PackedCopy::kMostUses),
                          std::memory_order_relaxed);
  copy.uses_.store(0, std::memory_order_relaxed);
  copy.source_evicted_.store(false, std::memory_order_relaxed);
  counters_->source_bytes_evicted.fetch_sub(copy.source_bytes_, std::memory_order_relaxed);
  Count(counters_->sources_restored);
}

uint64_t PackCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace hpu::emulator
