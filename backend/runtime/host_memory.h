// Pinned host memory: buffers that are mapped for the device, so that copies need no intermediate
// buffer. Freed buffers are kept and given out again once the copies that use them have ended.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::runtime {

class Device;
class Stream;

struct HostBlock {
  void* data = nullptr;
  uint64_t bytes = 0;  // a power of two, at least the requested size
  bool allocated = false;
  std::vector<Stream*> used_by;         // streams with copies queued since the allocation
  std::vector<synEventHandle> pending;  // between Free and reuse
};

class HostAllocator {
 public:
  explicit HostAllocator(Device& device) : device_(device) {}
  HostAllocator(const HostAllocator&) = delete;
  HostAllocator& operator=(const HostAllocator&) = delete;

  // `bytes` must be > 0.
  absl::StatusOr<HostBlock*> Allocate(uint64_t bytes);
  // Does nothing in a forked child.
  void Free(HostBlock* block);
  // Returns the block that contains `pointer`, or null.
  HostBlock* Find(const void* pointer);
  // Reuse after Free waits for the work that is queued on `stream`, now or later, before that Free.
  void RecordStream(HostBlock* block, Stream& stream);

 private:
  HostBlock* TakeCached(uint64_t bytes);
  bool Finished(HostBlock& block);

  Device& device_;
  std::mutex mutex_;
  std::map<uintptr_t, HostBlock*> blocks_;    // all, by address
  std::multimap<uint64_t, HostBlock*> free_;  // by size
};

}  // namespace hpu::runtime
