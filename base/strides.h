// Arithmetic on sizes and strides, in elements and in PyTorch dimension order (outermost first). A
// layout is a list of sizes and a list of the same length with the strides in memory.
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
// Returns true if the elements lie in row-major order without gaps. Strides of dimensions of size 1
// have no meaning, and neither have those of an empty tensor.
bool IsRowMajor(DimsView sizes, DimsView strides);
// Returns the dimensions from the largest to the smallest stride; equal ones stay in order.
std::vector<size_t> StrideOrder(DimsView strides);
// Returns the strides of a dense buffer of `sizes` whose dimensions are nested in the order of
// `like`.
Dims StridesInOrderOf(DimsView sizes, DimsView like);
// Returns true if every element has its own address and there are no gaps, in any dimension order;
// false for an empty tensor. If true, *perm (if given) is the order from the largest to the
// smallest stride, in which dimensions of size 1 keep their own place: permuted by it, the memory
// is row-major.
bool IsDense(DimsView sizes, DimsView strides, Dims* perm = nullptr);

// Returns the elements from the start of the memory of a layout, which begins `offset` elements
// before its first one, to its last one, inclusive. Returns 0 for an empty tensor and a negative
// number if that overflows. Strides must not be negative.
int64_t SpanElements(DimsView sizes, DimsView strides, int64_t offset = 0);

// Returns true if two layouts in one memory have no element in common; the first element of `b` is
// `distance` elements after that of `a`. Returns false, too, where it cannot tell: it sees layouts
// as boxes in one grid of all their strides.
bool AreDisjoint(DimsView sizes_a, DimsView strides_a, DimsView sizes_b, DimsView strides_b,
                 int64_t distance);

// Broadcasts two lists of sizes as numpy does; returns nullopt if they do not fit.
std::optional<Dims> BroadcastSizes(DimsView a, DimsView b);
// Returns the strides with which a layout is read as `to`: 0 where a dimension of size 1 or a
// missing leading one is repeated. `sizes` must broadcast to `to`.
Dims BroadcastStrides(DimsView sizes, DimsView strides, DimsView to);
// Returns the strides with which the memory of a layout is seen as `to` in row-major order of the
// elements, or nullopt if there are none or `to` has another number of elements.
std::optional<Dims> ReshapeStrides(DimsView sizes, DimsView strides, DimsView to);

}  // namespace hpu
