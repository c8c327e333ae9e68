// A caching allocator over the device's memory.
//
// Memory is taken from the device in segments and cut into blocks; freed blocks are kept, joined
// with free neighbours and given out again. A block belongs to the stream that it was allocated
// for, and this stream may reuse it at once, because its work runs in order. A block that another
// stream used (Use, RecordStream) is reused only after the work that was queued there at the time
// of Free has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "backend/runtime/memory_history.h"
#include "backend/runtime/stream_uses.h"
#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::runtime {

class Device;
class Stream;

// Callers may read `address` and `bytes`; everything else belongs to the allocator.
struct DeviceBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;  // at least the requested size; a multiple of kBlockAlignment
  uint64_t requested = 0;
  Stream* stream = nullptr;
  bool small = false;  // cut from a small segment
  bool allocated = false;
  uint32_t pending_events = 0;  // of other streams, between Free and reuse
  std::vector<Stream*> used_by;
  BlockUses uses;
  DeviceBlock* previous = nullptr;  // neighbours inside the segment
  DeviceBlock* next = nullptr;
  CallContext context;  // of the allocation, while history is recorded
};

// The names are those of torch.hpu.memory_stats. Values are bytes unless the name says Num or
// Total.
struct MemoryStats {
  uint64_t limit = 0;       // memory of the device
  uint64_t in_use = 0;      // blocks given out
  uint64_t max_in_use = 0;  // peak of in_use
  uint64_t num_allocs = 0;  // allocations served
  uint64_t num_frees = 0;
  uint64_t active_allocs = 0;        // blocks given out now
  uint64_t max_alloc_size = 0;       // largest allocation served
  uint64_t total_system_allocs = 0;  // segments taken from the device
  uint64_t total_system_frees = 0;   // segments given back
  uint64_t total_active_allocs = 0;  // segments held now
  uint64_t reserved = 0;             // bytes of the segments held
  uint64_t max_reserved = 0;
};

class DeviceAllocator {
 public:
  static constexpr uint64_t kBlockAlignment = 512;

  DeviceAllocator(Device& device, uint64_t limit_bytes);
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // `bytes` must be > 0. RESOURCE_EXHAUSTED names request, free, total and use; it is returned if a
  // second attempt after giving cached blocks back also fails.
  absl::StatusOr<DeviceBlock*> Allocate(uint64_t bytes, Stream& stream);
  // Never fails. In a forked child it does nothing.
  void Free(DeviceBlock* block);
  // Notes that `stream` uses the block, too: see above.
  void RecordStream(DeviceBlock* block, Stream& stream);
  // Call it before work that uses the block is queued on `stream`: makes the stream wait for the
  // work of other streams that this use must come after (stream_uses.h), and notes the use. Returns
  // whether the stream has been made to wait. Does nothing while the process has one stream.
  absl::StatusOr<bool> Use(DeviceBlock* block, Stream& stream, Access access);
  // Gives every segment without a block in use back to the device. Waits for pending frees.
  absl::Status EmptyCache();

  // Records what happens from now on and forgets what was recorded before; nullopt ends it.
  void RecordHistory(std::optional<HistoryOptions> options);
  MemorySnapshot Snapshot() const;

  MemoryStats stats() const;
  void ResetPeak();
  void ResetAccumulated();

 private:
  struct BySizeThenAddress {
    bool operator()(const DeviceBlock* a, const DeviceBlock* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using FreeList = std::set<DeviceBlock*, BySizeThenAddress>;
  struct PendingEvent {
    synEventHandle event;
    DeviceBlock* block;
  };

  CallContext ContextOfCaller() const;
  void Note(const char* action, uint64_t address, uint64_t bytes, const Stream& stream,
            const CallContext& context = nullptr);
  FreeList& ListOf(const DeviceBlock& block);
  FreeList& ListOf(const Stream& stream, bool small);
  DeviceBlock* TakeCached(uint64_t bytes, Stream& stream, bool small);
  absl::StatusOr<DeviceBlock*> TakeSegment(uint64_t bytes, Stream& stream, bool small);
  absl::StatusOr<DeviceBlock*> TakeSegmentOfSize(uint64_t segment_bytes, Stream& stream,
                                                 bool small);
  void Split(DeviceBlock* block, uint64_t bytes);
  void ReturnToList(DeviceBlock* block);
  DeviceBlock* JoinWith(DeviceBlock* block, DeviceBlock* neighbour);
  static void AddUser(DeviceBlock* block, Stream& stream);
  bool RecordUses(DeviceBlock* block);
  void ReclaimFinished(bool wait);
  absl::Status ReleaseCached();
  absl::Status OutOfMemory(uint64_t bytes, const Stream& stream);

  Device& device_;
  std::atomic<CallContext (*)()> context_{nullptr};  // HistoryOptions::context
  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  size_t most_events_ = 0;  // 0: no history
  std::deque<MemoryEvent> events_;
  std::map<uint64_t, DeviceBlock*> segments_;  // the first block of each, by address
  std::vector<FreeList> free_lists_;           // index 2 * stream id + small
  std::deque<PendingEvent> pending_;
  MemoryStats stats_;
};

// Returns text such as "1.50 GiB" or "640 bytes".
std::string FormatBytes(uint64_t bytes);

}  // namespace hpu::runtime
