#include "data_loader/views.h"

#include <cstring>

namespace hpu::data_loader {
namespace {

// Calls row(first element, axis index 0 of the row) for each row of the last axis, in order.
template <typename Row>
void ForEachRow(const View& view, size_t depth, const uint8_t* from, int64_t position,
                const Row& row) {
  if (depth + 1 >= view.axes.size()) return row(from, position);
  const View::Axis& axis = view.axes[depth];
  for (int64_t i = 0; i < axis.size; ++i) {
    ForEachRow(view, depth + 1, from + i * axis.stride, depth == 0 ? i : position, row);
  }
}

template <size_t kBytes>
void CopyRow(const uint8_t* from, const View::Axis& axis, uint8_t* to) {
  for (int64_t i = 0; i < axis.size; ++i, from += axis.stride, to += kBytes) {
    std::memcpy(to, from, kBytes);
  }
}

void CopyElements(const uint8_t* from, const View::Axis& axis, int element_bytes, uint8_t* to) {
  if (axis.stride == element_bytes) {
    std::memcpy(to, from, static_cast<size_t>(axis.size) * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return CopyRow<1>(from, axis, to);
    case 2:
      return CopyRow<2>(from, axis, to);
    case 4:
      return CopyRow<4>(from, axis, to);
    default:
      return CopyRow<8>(from, axis, to);
  }
}

template <size_t kBytes>
void LookUpRow(const uint8_t* from, const View::Axis& axis, const uint8_t* table, uint8_t* to) {
  for (int64_t i = 0; i < axis.size; ++i, from += axis.stride, to += kBytes) {
    std::memcpy(to, table + *from * kBytes, kBytes);
  }
}

void LookUp(const uint8_t* from, const View::Axis& axis, const uint8_t* table, int table_bytes,
            uint8_t* to) {
  switch (table_bytes) {
    case 1:
      return LookUpRow<1>(from, axis, table, to);
    case 2:
      return LookUpRow<2>(from, axis, table, to);
    default:
      return LookUpRow<4>(from, axis, table, to);
  }
}

}  // namespace

size_t View::result_bytes() const {
  size_t bytes = table != nullptr ? table_bytes : element_bytes;
  for (const Axis& axis : axes) bytes *= axis.size;
  return bytes;
}

void CopyView(const View& view, uint8_t* to) {
  if (view.result_bytes() == 0) return;
  const View::Axis& last = view.axes.back();
  const int bytes = view.table != nullptr ? view.table_bytes : view.element_bytes;
  ForEachRow(view, 0, view.first, 0, [&](const uint8_t* from, int64_t position) {
    if (view.table == nullptr) {
      CopyElements(from, last, view.element_bytes, to);
    } else {
      LookUp(from, last, view.table->data() + position * 256 * bytes, bytes, to);
    }
    to += last.size * bytes;
  });
}

}  // namespace hpu::data_loader
