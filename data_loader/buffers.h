// Memory for files, used again for the next ones: fresh pages cost as much as reading the file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace hpu::data_loader {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t capacity)
      : memory_(std::make_unique_for_overwrite<uint8_t[]>(capacity)), capacity_(capacity) {}

  size_t capacity() const { return capacity_; }
  void set_size(size_t size) { size_ = size; }
  std::span<uint8_t> bytes() { return {memory_.get(), size_}; }
  std::span<const uint8_t> bytes() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  size_t capacity_ = 0;
  size_t size_ = 0;
};

// For all threads. It keeps everything that was ever given back.
class Buffers {
 public:
  // A buffer of that size with any content.
  Buffer Take(size_t size);
  void GiveBack(Buffer buffer);

 private:
  static constexpr size_t kClasses = 64;  // capacities are powers of two

  std::mutex mutex_;
  std::array<std::vector<Buffer>, kClasses> free_;  // guarded by mutex_
};

}  // namespace hpu::data_loader
