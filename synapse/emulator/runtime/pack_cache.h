// Operands rearranged for the matrix engine, kept as long as their source bytes do not change.
//
// Staleness: whoever changes device memory calls Drop for the range after the change and before the
// change counts as done. A pack that began before that is not kept either, even if it ends later;
// so every launch that is ordered after the change packs anew. Launches that run at the time keep
// the copies they hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "synapse/emulator/runtime/aligned_buffer.h"
#include "synapse/emulator/runtime/counters.h"

namespace hpu::emulator {

struct PackKey {
  uint64_t address = 0;  // of the source
  uint64_t bytes = 0;    // of the source
  std::string format;    // layout of the copy; equal formats of equal sources are equal copies
  bool operator==(const PackKey&) const = default;
};

class PackedCopy {
 public:
  explicit PackedCopy(size_t bytes) : buffer_(bytes) {}
  const AlignedBuffer& buffer() const { return buffer_; }
  // The cache still keeps it: its source has not changed.
  bool valid() const { return valid_.load(std::memory_order_acquire); }
  void Touch(uint64_t now) { last_use_.store(now, std::memory_order_relaxed); }

 private:
  friend class PackCache;
  AlignedBuffer buffer_;
  std::atomic<bool> valid_{true};
  std::atomic<bool> ready_{false};
  std::atomic<uint64_t> last_use_{0};
  std::mutex packing_;  // held while the first user fills the buffer
};

// Thread-safe.
class PackCache {
 public:
  // `limit`: bytes kept; copies least recently used go first. What one launch needs at once may
  // exceed it for the time of that launch.
  PackCache(uint64_t limit, Counters* counters) : limit_(limit), counters_(counters) {}

  // The copy for `key`, made with `pack` if there is none. Null when memory is exhausted. `now` is
  // any clock that grows from launch to launch.
  std::shared_ptr<PackedCopy> Get(const PackKey& key, uint64_t packed_bytes, uint64_t now,
                                  const std::function<void(uint8_t* destination)>& pack);

  // Forgets every copy whose source overlaps [address, address + bytes).
  void Drop(uint64_t address, uint64_t bytes);
  void DropAll();

  uint64_t bytes() const;

 private:
  struct Hash {
    size_t operator()(const PackKey& key) const {
      return std::hash<std::string>()(key.format) ^ (key.address * 0x9E3779B97F4A7C15ull) ^
             key.bytes;
    }
  };
  using Entries = std::unordered_map<PackKey, std::shared_ptr<PackedCopy>, Hash>;

  void Erase(Entries::iterator entry);
  void EvictDownTo(uint64_t bytes, uint64_t now);

  const uint64_t limit_;
  Counters* const counters_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::multimap<uint64_t, Entries::iterator> by_address_;
  uint64_t longest_source_ = 0;
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> size_{0};  // entries, for the quick way out of Drop
};

}  // namespace hpu::emulator
