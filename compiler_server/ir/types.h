// The tensor types of the IR. Sizes and strides are in elements, in PyTorch's dimension order
// (outermost first). Strides describe memory only where a value has memory of its own before
// lowering: graph inputs, results of `aten` nodes and captured results. Everything else is
// contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/strides.h"

namespace hpu::ir {

using hpu::Dims;

// Limits that import and verifier enforce. A graph beyond them is refused.
inline constexpr int kMaxRank = 16;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

struct TensorType {
  DType dtype = DType::kInvalid;
  Dims sizes;
  Dims strides;

  bool operator==(const TensorType&) const = default;
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const { return NumElements(sizes); }
  int64_t bytes() const { return elements() * DTypeSize(dtype); }
  bool contiguous() const { return IsRowMajor(sizes, strides); }
};

// Whether this float type is calculated in f32 and rounded afterwards.
inline bool IsNarrowFloat(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
inline bool IsFloat8(DType dtype) { return IsFloat(dtype) && DTypeSize(dtype) == 1; }

// Returns the row-major type.
TensorType Contiguous(DType dtype, Dims sizes);
inline TensorType Contiguous(const TensorType& type) { return Contiguous(type.dtype, type.sizes); }
// The number of elements from the first to the last one addressed, inclusive; 0 for an empty
// tensor.
inline int64_t SpanElements(const TensorType& type) {
  return hpu::SpanElements(type.sizes, type.strides);
}
inline bool IsDense(const TensorType& type, Dims* perm = nullptr) {
  return hpu::IsDense(type.sizes, type.strides, perm);
}

// Prints "f32[8,64]", followed by "{1,8}" if the strides are not row-major.
std::string ToText(const TensorType& type);
std::string ToText(std::span<const int64_t> dims);  // "[8,64]"

}  // namespace hpu::ir
