// Tensor types of the IR. Sizes and strides are in elements, PyTorch dimension order (outermost
// first). Strides describe memory only where a value has memory of its own before lowering: graph
// inputs, results of `aten` nodes and captured results; everything else is contiguous.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace hpu::ir {

using Dims = std::vector<int64_t>;

// Limits that import and verifier enforce: beyond them a graph is refused, not attempted.
inline constexpr int kMaxRank = 16;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

struct TensorType {
  DType dtype = DType::kInvalid;
  Dims sizes;
  Dims strides;

  bool operator==(const TensorType&) const = default;
  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const;
  int64_t bytes() const { return elements() * DTypeSize(dtype); }
  bool contiguous() const;
};

Dims ContiguousStrides(std::span<const int64_t> sizes);
// Row-major type.
TensorType Contiguous(DType dtype, Dims sizes);
inline TensorType Contiguous(const TensorType& type) { return Contiguous(type.dtype, type.sizes); }
int64_t ElementCount(std::span<const int64_t> sizes);
// Elements from the first to the last one addressed, inclusive; 0 for an empty tensor.
int64_t SpanElements(const TensorType& type);
// True if every element has its own address and there are no gaps, in whatever dimension order.
// Then *perm (if given) is the order from largest to smallest stride: permute(value, perm) is
// row-major in the same memory.
bool IsDensePermutation(const TensorType& type, Dims* perm = nullptr);
// numpy broadcasting; false if the sizes do not fit.
bool BroadcastSizes(std::span<const int64_t> a, std::span<const int64_t> b, Dims* result);

// "f32[8,64]", with "{1,8}" behind it if the strides are not row-major.
std::string ToText(const TensorType& type);
std::string ToText(std::span<const int64_t> dims);  // "[8,64]"

}  // namespace hpu::ir
