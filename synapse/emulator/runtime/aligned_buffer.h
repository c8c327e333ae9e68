// Page-backed memory of the emulator's own: packed operands, constants, scratch.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace hpu::emulator {

// 64-byte aligned; large ones are huge-page aligned and ask for huge pages. Move-only.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Contents are undefined. Null data() when memory is exhausted or `bytes` is 0.
  explicit AlignedBuffer(size_t bytes) {
    if (bytes == 0) return;
    const size_t alignment = bytes >= kHugePageBytes ? kHugePageBytes : kAlignment;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<uint8_t*>(std::aligned_alloc(alignment, rounded)));
    if (data_ == nullptr) return;
    size_ = bytes;
    if (alignment == kHugePageBytes) madvise(data_.get(), rounded, MADV_HUGEPAGE);
  }

  uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

  // Grows to at least `bytes`, dropping the contents; false when memory is exhausted.
  bool Reserve(size_t bytes) {
    if (size_ >= bytes) return true;
    *this = AlignedBuffer(bytes);
    return size_ >= bytes;
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

}  // namespace hpu::emulator
