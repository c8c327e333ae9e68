// Rows of RGBX pixels, eight bits each; the fourth byte of a pixel is padding. The memory is kept
// when the size changes, because a thread fills one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace hpu::data_loader {

constexpr int kPixelBytes = 4;

struct Size {
  int width = 0;
  int height = 0;
};

struct Box {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

class Pixels {
 public:
  // Sets the size. The contents are undefined afterwards.
  void Reset(Size size) {
    size_ = size;
    const size_t bytes = stride() * size.height + kSlackBytes;
    if (bytes <= capacity_) return;
    memory_ = std::make_unique<uint8_t[]>(bytes);
    capacity_ = bytes;
  }
  Size size() const { return size_; }
  size_t stride() const { return static_cast<size_t>(size_.width) * kPixelBytes; }
  uint8_t* row(int y) { return memory_.get() + stride() * y; }
  const uint8_t* row(int y) const { return memory_.get() + stride() * y; }

 private:
  // Kernels may read and write this many bytes behind the last row.
  static constexpr size_t kSlackBytes = 64;

  Size size_;
  size_t capacity_ = 0;
  std::unique_ptr<uint8_t[]> memory_;
};

}  // namespace hpu::data_loader
