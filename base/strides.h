// Arithmetic on sizes and strides, in elements and in PyTorch dimension order (outermost first). A
// layout is a list of sizes and, of the same length, the strides with which it lies in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hpu {

using Dims = std::vector<int64_t>;
using DimsView = std::span<const int64_t>;

int64_t NumElements(DimsView sizes);
// A dimension of size 0 counts as 1, as in PyTorch.
Dims RowMajorStrides(DimsView sizes);
// True if the elements lie in row-major order without gaps. Strides of dimensions of size 1 say
// nothing, those of an empty tensor neither.
bool IsRowMajor(DimsView sizes, DimsView strides);
// The dimensions from largest to smallest stride; equal ones stay in order.
std::vector<size_t> StrideOrder(DimsView strides);
// Strides of a dense buffer of `sizes` whose dimensions are nested in the order of `like`.
Dims StridesInOrderOf(DimsView sizes, DimsView like);
// True if every element has its own address and there are no gaps, in whatever dimension order;
// false for an empty tensor. Then *perm (if given) is the order from largest to smallest stride, in
// which dimensions of size 1 keep their own place: permuted by it, the memory is row-major.
bool IsDense(DimsView sizes, DimsView strides, Dims* perm = nullptr);

// Elements from the start of what a layout lies in, `offset` before its first one, to its last one,
// inclusive; 0 for an empty tensor, negative if that overflows. Strides are not negative.
int64_t SpanElements(DimsView sizes, DimsView strides, int64_t offset = 0);

// numpy broadcasting of two lists of sizes; nullopt if they do not fit.
std::optional<Dims> BroadcastSizes(DimsView a, DimsView b);
// Strides with which a layout is read as `to`: 0 where a dimension of size 1 or a missing leading
// one is repeated. `sizes` must broadcast to `to`.
Dims BroadcastStrides(DimsView sizes, DimsView strides, DimsView to);
// Strides with which the memory of a layout is seen as `to` in row-major order of the elements;
// nullopt if there are none or `to` has another number of elements.
std::optional<Dims> ReshapeStrides(DimsView sizes, DimsView strides, DimsView to);

}  // namespace hpu
