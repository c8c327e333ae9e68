// Page-backed memory for the emulator's own use: packed operands, constants, scratch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace hpu::emulator {

// 64-byte aligned, move-only memory. It asks for no huge pages: most buffers are filled once, and
// where the system has to make huge pages first, the first touch of 440 MB took 740 to 920 ms
// instead of 190 (45 once it had them).
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // The contents are undefined. data() is null when memory is exhausted or `bytes` is 0.
  explicit AlignedBuffer(size_t bytes) {
    if (bytes == 0) return;
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    data_.reset(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, rounded)));
    if (data_ != nullptr) size_ = bytes;
  }

  uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

  // Grows to at least `bytes` and drops the contents; returns false when memory is exhausted.
  bool Reserve(size_t bytes) {
    if (size_ >= bytes) return true;
    *this = AlignedBuffer(bytes);
    return size_ >= bytes;
  }

 private:
  static constexpr size_t kAlignment = 64;

  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0;
};

}  // namespace hpu::emulator
