// Operands rearranged for the matrix engine, kept as long as their source bytes do not change. What
// the prologue of a recipe made is such a copy, too, of many sources.
//
// Staleness: whoever changes device memory calls Drop for the range after the change and before the
// change counts as done. A pack that began before that is not kept either, even if it ends later;
// so every launch that is ordered after the change packs anew. Launches that run at the time keep
// the copies they hold. What launches write, as the weights of a model in training, is soon packed
// again: the memory of such a copy is kept for that (Rewrite), because pages that the system has to
// make anew take several times as long to fill.
//
// Memory: the weights of a served model would exist twice. A source whose copy is in steady use is
// evicted: its whole pages go back to the system, and the copy alone holds the bytes. Whoever reads
// or writes device memory other than through copies does so within a MemoryAccess, which first
// restores what was evicted of the ranges it uses. While any access is open nothing is evicted.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/base/aligned_buffer.h"
#include "emulator/base/counters.h"
#include "emulator/runtime/code_image.h"

namespace hpu::emulator {

struct DeviceRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct PackKey {
  uint64_t address = 0;  // of the source
  uint64_t bytes = 0;    // of the source
  std::string format;    // layout of the copy; equal formats of equal sources are equal copies
  bool operator==(const PackKey&) const = default;
};

// How a source is written from its copy (PackedOperand::restore_entry).
struct SourceRestorer {
  std::shared_ptr<const CodeImage> code;  // keeps the function
  KernelFunction function = nullptr;
  uint64_t tasks = 0;
};

class PackedCopy {
 public:
  PackedCopy(uint64_t source, uint64_t source_bytes, AlignedBuffer buffer,
             std::span<const DeviceRange> others)
      : source_(source),
        source_bytes_(source_bytes),
        others_(others.begin(), others.end()),
        buffer_(std::move(buffer)) {}
  uint8_t* data() const { return buffer_.data(); }
  uint64_t bytes() const { return buffer_.size(); }
  // Its source has not changed.
  bool valid() const { return valid_.load(std::memory_order_acquire); }
  void Touch(uint64_t now) { last_use_.store(now, std::memory_order_relaxed); }
  // Counts a launch that could do without the source. True: in steady use, the source may go.
  bool CountUse() {
    if (source_evicted_.load(std::memory_order_relaxed)) return false;
    return uses_.fetch_add(1, std::memory_order_relaxed) + 1 >=
           uses_wanted_.load(std::memory_order_relaxed);
  }

  // True for one caller: it fills the copy, then calls SetReady. Who claims several copies fills
  // them all before it waits for any. It may set a restorer before SetReady.
  bool Claim() {
    uint32_t empty = kEmpty;
    return state_.load(std::memory_order_relaxed) == kEmpty &&
           state_.compare_exchange_strong(empty, kClaimed, std::memory_order_acq_rel);
  }
  void SetRestorer(SourceRestorer restorer) { restorer_ = std::move(restorer); }
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
  // The launch after the one that packs: what is written every step (training) never gets there.
  // Every restoration makes it eight times as many, so that a source that some launches read
  // directly and others packed soon stays.
  static constexpr uint32_t kUsesBeforeEviction = 2;
  static constexpr uint32_t kBackoff = 8;
  static constexpr uint32_t kMostUses = 1 << 24;

  const uint64_t source_;
  const uint64_t source_bytes_;
  const std::vector<DeviceRange> others_;  // that it depends on, too
  AlignedBuffer buffer_;  // the next copy's, once this one is stale and nobody holds it
  SourceRestorer restorer_;
  std::atomic<bool> source_evicted_{false};
  std::atomic<uint32_t> uses_{0};
  std::atomic<uint32_t> uses_wanted_{kUsesBeforeEviction};
  std::atomic<bool> valid_{true};
  std::atomic<uint32_t> state_{kEmpty};
  std::atomic<uint64_t> last_use_{0};
};

// Thread-safe.
class PackCache {
 public:
  // `limit`: bytes kept; stale copies go first, then those least recently used. What one launch
  // needs at once may exceed it for the time of that launch.
  PackCache(uint64_t limit, Counters* counters) : limit_(limit), counters_(counters) {}
  ~PackCache();

  // The copy for `key`, a new one (to be claimed and filled) if there is none. It depends on the
  // key's source and on `others`, which are the same for equal keys. Null when memory is exhausted.
  // `now` is any clock that grows from launch to launch.
  std::shared_ptr<PackedCopy> Get(const PackKey& key, uint64_t packed_bytes, uint64_t now,
                                  std::span<const DeviceRange> others = {});

  // Forgets every copy whose source overlaps [address, address + bytes). A write that was not
  // within a MemoryAccess loses what else an evicted source held.
  void Drop(uint64_t address, uint64_t bytes);
  // The same, for what the launch at `now` wrote: keeps the memory of the copies for the next copy
  // of the same source and format, for some launches.
  void Rewrite(uint64_t address, uint64_t bytes, uint64_t now);

  // Between them no source is evicted; between them MakeResident holds. See MemoryAccess.
  void BeginAccess() { accesses_.fetch_add(1); }
  void EndAccess() { accesses_.fetch_sub(1); }
  // Restores what the range holds of evicted sources. Any address: memory that is no source is no
  // concern.
  void MakeResident(uint64_t address, uint64_t bytes);

  // Gives back the whole pages of the sources, unless an access is open. The copies are ready, have
  // restorers and were found by the caller's launch.
  void EvictSources(std::span<const std::shared_ptr<PackedCopy>> copies);
  // Grows with every attempt to evict; 0: nothing was ever evicted.
  uint64_t eviction_epoch() const { return eviction_epoch_.load(std::memory_order_seq_cst); }

  uint64_t bytes() const;

 private:
  struct Hash {
    size_t operator()(const PackKey& key) const {
      return std::hash<std::string>()(key.format) ^ (key.address * 0x9E3779B97F4A7C15ull) ^
             key.bytes;
    }
  };
  using Entries = std::unordered_map<PackKey, std::shared_ptr<PackedCopy>, Hash>;

  // Calls `visit` with every entry of which a source overlaps the range; it may erase that entry.
  template <typename Visit>
  void ForOverlapping(uint64_t address, uint64_t bytes, const Visit& visit);
  // Memory for a copy under `key`: that of the stale one, which it takes out, if nobody holds it.
  AlignedBuffer TakeBuffer(const PackKey& key, uint64_t bytes);
  void Insert(const PackKey& key, const std::shared_ptr<PackedCopy>& copy);
  void ForgetStale(uint64_t now);
  void Restore(PackedCopy& copy);
  void AddSource(uint64_t address, uint64_t bytes, Entries::iterator entry);
  void EraseSource(uint64_t address, Entries::iterator entry);
  void Erase(Entries::iterator entry);
  void EvictDownTo(uint64_t bytes, uint64_t now);

  const uint64_t limit_;
  Counters* const counters_;
  mutable std::mutex mutex_;
  Entries entries_;
  struct Source {
    uint64_t bytes = 0;
    Entries::iterator entry;
  };
  std::multimap<uint64_t, Source> by_address_;
  uint64_t longest_source_ = 0;
  uint64_t next_forgetting_ = 0;  // launch from which on stale copies may be too old
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> size_{0};  // entries, for the quick way out of Drop
  // An access is counted before it looks at the epoch, an eviction moves the epoch before it looks
  // at the count: one of them sees the other.
  std::atomic<uint64_t> accesses_{0};
  std::atomic<uint64_t> eviction_epoch_{0};
};

// While it lives, the ranges that it uses stay in memory.
class MemoryAccess {
 public:
  explicit MemoryAccess(PackCache* cache) : cache_(cache) { cache_->BeginAccess(); }
  ~MemoryAccess() { cache_->EndAccess(); }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

  void Use(uint64_t address, uint64_t bytes) { cache_->MakeResident(address, bytes); }

 private:
  PackCache* const cache_;
};

}  // namespace hpu::emulator
