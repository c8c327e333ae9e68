#include "synapse/emulator/runtime/pack_arena.h"

#include <sys/mman.h>

#include <algorithm>

namespace hpu::emulator {
namespace {

constexpr uint64_t kSlabBytes = uint64_t{64} << 20;  // of address space; pages come with their use
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPageBytes = 4096;

void GiveBackPages(const uint8_t* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uint64_t>(data);
  const uint64_t first = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t last = (begin + bytes) / kPageBytes * kPageBytes;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

std::shared_ptr<uint8_t> PackArena::Allocate(uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (slab_ == nullptr || rounded > slab_->size() - used_) {
    auto slab = std::make_shared<AlignedBuffer>(std::max(rounded, kSlabBytes));
    if (slab->data() == nullptr) return nullptr;
    slab_ = std::move(slab);
    used_ = 0;
  }
  uint8_t* data = slab_->data() + used_;
  used_ += rounded;
  return {data, [slab = slab_, bytes](uint8_t* freed) { GiveBackPages(freed, bytes); }};
}

}  // namespace hpu::emulator
