// Operands rearranged for the matrix engine, kept as long as their source bytes do not change.
//
// Staleness: whoever changes device memory calls Drop for the range after the change and before the
// change counts as done. A pack that began before that is not kept either, even if it ends later;
// so every launch that is ordered after the change packs anew. Launches that run at the time keep
// the copies they hold.
#pragma once

#include <atomic>
#include <cstdint>
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
  explicit PackedCopy(uint64_t bytes) : buffer_(bytes) {}
  uint8_t* data() const { return buffer_.data(); }
  uint64_t bytes() const { return buffer_.size(); }
  // The cache still keeps it: its source has not changed.
  bool valid() const { return valid_.load(std::memory_order_acquire); }
  void Touch(uint64_t now) { last_use_.store(now, std::memory_order_relaxed); }

  // True for one caller: it fills the copy, then calls SetReady. Who claims several copies fills
  // them all before it waits for any.
  bool Claim() {
    uint32_t empty = kEmpty;
    return state_.load(std::memory_order_relaxed) == kEmpty &&
           state_.compare_exchange_strong(empty, kClaimed, std::memory_order_acq_rel);
  }
  void SetReady() {
    state_.store(kReady, std::memory_order_release);
    state_.notify_all();
  }
  void WaitReady() const {
    for (;;) {
      const uint32_t state = state_.load(std::memory_order_acquire);
      if (state == kReady) return;
      state_.wait(state, std::memory_order_acquire);
    }
  }

 private:
  friend class PackCache;
  static constexpr uint32_t kEmpty = 0, kClaimed = 1, kReady = 2;

  const AlignedBuffer buffer_;
  std::atomic<bool> valid_{true};
  std::atomic<uint32_t> state_{kEmpty};
  std::atomic<uint64_t> last_use_{0};
};

// Thread-safe.
class PackCache {
 public:
  // `limit`: bytes kept; copies least recently used go first. What one launch needs at once may
  // exceed it for the time of that launch.
  PackCache(uint64_t limit, Counters* counters) : limit_(limit), counters_(counters) {}

  // The copy for `key`, a new one (to be claimed and filled) if there is none. Null when memory is
  // exhausted. `now` is any clock that grows from launch to launch.
  std::shared_ptr<PackedCopy> Get(const PackKey& key, uint64_t packed_bytes, uint64_t now);

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
