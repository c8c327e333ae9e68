// Memory of packed operands. They are cut one after the other from slabs of huge pages: single
// weights are often shorter than a huge page or a little longer, and page faults of the other kind
// would cost more than packing does.
#pragma once

#include <cstdint>
#include <memory>

#include "synapse/emulator/runtime/aligned_buffer.h"

namespace hpu::emulator {

// Not thread-safe; what it hands out may be released on any thread.
class PackArena {
 public:
  // 64-byte aligned, contents undefined. Whole pages go back to the system when the last owner
  // goes. Null when memory is exhausted or `bytes` is 0.
  std::shared_ptr<uint8_t> Allocate(uint64_t bytes);

 private:
  std::shared_ptr<AlignedBuffer> slab_;  // shared with what was cut from it
  uint64_t used_ = 0;
};

}  // namespace hpu::emulator
