// Parts of arrays, which crops and flips select: they are copied into rows without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hpu::data_loader {

// Elements of an array. A stride counts bytes and may be negative or 0.
struct View {
  struct Axis {
    int64_t size = 0;
    int64_t stride = 0;
  };

  const uint8_t* first = nullptr;
  std::vector<Axis> axes;  // the last one varies fastest
  int element_bytes = 1;   // 1, 2, 4 or 8
  // If it is there, elements are bytes, and value v at position c of the first axis becomes element
  // 256 * c + v of the table. The table has 256 elements of `table_bytes` bytes for each position.
  std::shared_ptr<const std::vector<uint8_t>> table;
  int table_bytes = 0;  // 1, 2 or 4

  size_t result_bytes() const;
};

// Writes result_bytes(). `to` must be aligned for the elements, and the source need not be.
void CopyView(const View& view, uint8_t* to);

}  // namespace hpu::data_loader
