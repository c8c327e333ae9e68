#include "data_loader/buffers.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hpu::data_loader {

Buffer Buffers::Take(size_t size) {
  const size_t capacity = std::bit_ceil(std::max<size_t>(size, 4096));
  Buffer buffer;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Buffer>& free = free_[std::countr_zero(capacity)];
    if (!free.empty()) {
      buffer = std::move(free.back());
      free.pop_back();
    }
  }
  if (buffer.capacity() == 0) buffer = Buffer(capacity);
  buffer.set_size(size);
  return buffer;
}

void Buffers::GiveBack(Buffer buffer) {
  if (buffer.capacity() == 0) return;
  const std::lock_guard lock(mutex_);
  free_[std::countr_zero(buffer.capacity())].push_back(std::move(buffer));
}

}  // namespace hpu::data_loader
