// Operands that were rearranged for the matrix engine. They are kept as long as their source bytes
// do not change. The results of a recipe's prologue are such a copy too, with many sources.
//
// Staleness: code that changes device memory calls Drop for the range after the change and before
// the change counts as done. A pack that began before that is not kept either, even if it ends
// later, so every launch that is ordered after the change packs again. Launches that run at that
// time keep the copies they hold. Memory that launches write, such as the weights of a model in
// training, is soon packed again: the memory of its copy is kept for that (Rewrite), because it
// takes several times as long to fill pages that the system has to make again.
//
// Memory: the weights of a served model would exist twice. A source whose copy is in steady use is
// evicted: its whole pages go back to the system, and only the copy holds the bytes. Code that
// reads or writes device memory other than through copies does so within a MemoryAccess, which
// first restores the evicted parts of the ranges that it uses. While any access is open nothing is
// evicted.
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
#include "emulator/memory/host_view.h"
#include "emulator/runtime/code_image.h"

namespace hpu::emulator {

struct DeviceRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

struct PackKey {
  uint64_t address = 0;  // address of the source
  uint64_t bytes = 0;    // size of the source
  std::string format;    // layout of the copy; equal formats of equal sources are equal copies
  bool operator==(const PackKey&) const = default;
};

// How a source is written back from its copy (PackedOperand::restore_entry).
struct SourceRestorer {
  std::shared_ptr<const CodeImage> code;  // keeps the function alive
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
  // Returns whether the source is unchanged.
  bool valid() const { return valid_.load(std::memory_order_acquire); }
  void Touch(uint64_t now) { last_use_.store(now, std::memory_order_relaxed); }
  // Counts a launch that did not need the source. Returns true if the copy is in steady use, so
  // that the source may be evicted.
  bool CountUse() {
    if (source_evicted_.load(std::memory_order_relaxed)) return false;
    return uses_.fetch_add(1, std::memory_order_relaxed) + 1 >=
           uses_wanted_.load(std::memory_order_relaxed);
  }

  // Returns true for one caller, which then fills the copy and calls SetReady. A caller that claims
  // several copies fills them all before it waits for any. It may set a restorer before SetReady.
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
  // Two uses mean the launch after the one that packs: memory that is written in every step
  // (training) never gets there. Every restoration multiplies the number by eight, so that a source
  // that some launches read directly and others read packed soon stays.
  static constexpr uint32_t kUsesBeforeEviction = 2;
  static constexpr uint32_t kBackoff = 8;
  static constexpr uint32_t kMostUses = 1 << 24;

  const uint64_t source_;
  const uint64_t source_bytes_;
  const std::vector<DeviceRange> others_;  // the copy depends on these, too
  AlignedBuffer buffer_;  // once this copy is stale and has no holder, the next copy takes it
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
  // `limit` is the number of bytes that are kept. Stale copies go first, then those least recently
  // used. A launch may exceed the limit while it runs by what it needs at once.
  // `memory` says where sources lie.
  PackCache(uint64_t limit, Counters* counters, const HostView& memory = {})
      : memory_(memory), limit_(limit), counters_(counters) {}
  ~PackCache();

  // Returns the copy for `key`, a new one (to be claimed and filled) if there is none. It depends
  // on the key's source and on `others`, which are the same for equal keys. Returns null when
  // memory is exhausted. `now` is any clock that grows from launch to launch.
  std::shared_ptr<PackedCopy> Get(const PackKey& key, uint64_t packed_bytes, uint64_t now,
                                  std::span<const DeviceRange> others = {});

  // Forgets every copy whose source overlaps [address, address + bytes). If a write was not within
  // a MemoryAccess, the rest of an evicted source is lost.
  void Drop(uint64_t address, uint64_t bytes);
  // Does the same for memory that the launch at `now` wrote, but keeps the memory of the copies for
  // some launches, for the next copy of the same source and format.
  void Rewrite(uint64_t address, uint64_t bytes, uint64_t now);

  // Between these calls no source is evicted, so that MakeResident stays in effect. See
  // MemoryAccess.
  void BeginAccess() { accesses_.fetch_add(1); }
  void EndAccess() { accesses_.fetch_sub(1); }
  // Restores the parts of evicted sources that lie in the range. The range may be any memory; parts
  // that are no source are ignored.
  void MakeResident(uint64_t address, uint64_t bytes);

  // Gives back the whole pages of the sources, unless an access is open. The copies are ready, have
  // restorers and were found by the caller's launch.
  void EvictSources(std::span<const std::shared_ptr<PackedCopy>> copies);
  // Grows with every attempt to evict; 0 means that nothing was ever evicted.
  uint64_t eviction_epoch() const { return eviction_epoch_.load(std::memory_order_seq_cst); }

  uint64_t bytes() const;
  const HostView& memory() const { return memory_; }

 private:
  struct Hash {
    size_t operator()(const PackKey& key) const {
      return std::hash<std::string>()(key.format) ^ (key.address * 0x9E3779B97F4A7C15ull) ^
             key.bytes;
    }
  };
  using Entries = std::unordered_map<PackKey, std::shared_ptr<PackedCopy>, Hash>;

  // Calls `visit` with every entry that has a source overlapping the range; it may erase that
  // entry.
  template <typename Visit>
  void ForOverlapping(uint64_t address, uint64_t bytes, const Visit& visit);
  // Returns memory for a copy under `key`: it takes out the stale copy and uses its memory if it
  // has no holder.
  AlignedBuffer TakeBuffer(const PackKey& key, uint64_t bytes);
  void Insert(const PackKey& key, const std::shared_ptr<PackedCopy>& copy);
  void ForgetStale(uint64_t now);
  void Restore(PackedCopy& copy);
  void AddSource(uint64_t address, uint64_t bytes, Entries::iterator entry);
  void EraseSource(uint64_t address, Entries::iterator entry);
  void Erase(Entries::iterator entry);
  void EvictDownTo(uint64_t bytes, uint64_t now);

  const HostView memory_;
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
  uint64_t next_forgetting_ = 0;  // the launch from which on stale copies may be too old
  uint64_t bytes_ = 0;
  std::atomic<uint64_t> size_{0};  // number of entries, which lets Drop return early
  // An access is counted before it looks at the epoch, and an eviction moves the epoch before it
  // looks at the count, so one of them sees the other.
  std::atomic<uint64_t> accesses_{0};
  std::atomic<uint64_t> eviction_epoch_{0};
};

// While the object lives, the ranges that it uses stay in memory. This is the emulator's way to the
// bytes of device memory.
class MemoryAccess {
 public:
  explicit MemoryAccess(PackCache* cache) : cache_(cache) { cache_->BeginAccess(); }
  ~MemoryAccess() { cache_->EndAccess(); }
  MemoryAccess(const MemoryAccess&) = delete;
  MemoryAccess& operator=(const MemoryAccess&) = delete;

  // Returns where the range's bytes lie.
  void* Use(uint64_t address, uint64_t bytes) {
    cache_->MakeResident(address, bytes);
    return cache_->memory().At(address);
  }

 private:
  PackCache* const cache_;
};

}  // namespace hpu::emulator
