// These records say what the device allocator did and holds, as PyTorch's memory viewer shows it
// (torch.cuda._memory_viz). The names of actions and states are the viewer's.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace hpu::runtime {

// This is the caller of the allocator. It is opaque here, because this folder knows no Python.
using CallContext = std::shared_ptr<void>;

struct MemoryEvent {
  const char* action = "";  // "alloc", "free_requested", "free_completed", "segment_alloc",
                            // "segment_free" or "oom"
  uint64_t address = 0;     // "oom": the bytes that the device has free
  uint64_t bytes = 0;       // as requested
  uint32_t stream = 0;
  int64_t time_us = 0;  // since 1970
  CallContext context;
};

struct BlockInfo {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t requested = 0;
  const char* state = "";  // "active_allocated", "active_awaiting_free" or "inactive"
  CallContext context;
};

struct SegmentInfo {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t stream = 0;
  bool small = false;
  std::vector<BlockInfo> blocks;  // by address
};

struct MemorySnapshot {
  std::vector<SegmentInfo> segments;  // by address
  std::vector<MemoryEvent> events;    // the oldest first
};

// The history is recorded with these settings.
struct HistoryOptions {
  size_t most_events = 0;  // the oldest ones are forgotten
  // Returns the caller. It is called without a lock; null if nobody wants to know.
  CallContext (*context)() = nullptr;
};

}  // namespace hpu::runtime
