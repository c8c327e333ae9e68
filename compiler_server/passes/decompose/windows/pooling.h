// Windows of pooling over images in the form [N, H, W, C]. The pooling of images and that of
// volumes share this code.
#pragma once

#include <optional>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/windows/conv_window.h"

namespace hpu::compiler {

struct PoolWindow {
  Dims kernel;
  Dims stride;
  Dims pads;  // low and high per dimension
  Dims dilation = {1, 1};
  bool ceil = false;
};

// Returns the average of each window: the sum of its elements over `divisor`, or over the number of
// elements if `divisor` is 0.
Value* PoolAverage(Call& call, Value* image, const PoolWindow& window, bool count_padding,
                   int64_t divisor);

// Emits kMaxPool, or kMaxPoolIndex, which gives the place of each maximum in the plane of its
// image, in i32.
Value* PoolMaximum(Call& call, OpKind op, Value* image, const PoolWindow& window);

struct Maxima {
  Value* value = nullptr;
  Value* place = nullptr;  // nullptr unless it was asked for
};
Maxima PoolMaxima(Call& call, Value* image, const PoolWindow& window, bool places);
// Pools adaptively to this number of rows and columns.
Maxima AdaptiveMaxima(Call& call, Value* image, int64_t rows, int64_t columns, bool places);

// Returns the window of adaptive pooling from `in` to `out`, two sizes each, if all windows have
// the same size.
std::optional<PoolWindow> EvenWindow(std::span<const int64_t> in, std::span<const int64_t> out);

// Returns places of maxima, which come from memory, as i32. They are narrowed in between if
// possible, so that a partition saves two bytes for each and not eight. `places` is the number of
// elements of a plane.
Value* NarrowPlaces(Call& call, Value* index, int64_t places);

// One dimension of average pooling.
struct PoolingAlong {
  int64_t input, output, kernel, stride, pad;

  // Returns true if no window reaches over an edge.
  bool Plain() const { return pad == 0 && (output - 1) * stride + kernel <= input; }
  bool Tiles() const { return Plain() && kernel == stride; }
};
// Returns [outputs, inputs], with 1 where a window covers an input.
Expr Coverage(Call& call, const PoolingAlong& pool);
// Returns the number of elements that each window divides by, with padding or without it:
// [outputs].
Expr WindowSizes(Call& call, const PoolingAlong& pool, bool padding);
// Returns [outputs, inputs] with the weights of adaptive pooling: output o covers [floor(o * in /
// out), ceil((o + 1) * in / out)), and all of these inputs have the same weight.
Expr AdaptiveWeights(Call& call, int64_t inputs, int64_t outputs);

// Gives the last dimensions of `grad` multiplied by the transposes of the weights, which are
// [outputs, inputs] for each dimension: the gradient of what is linear along each dimension. The
// result has the call's declared sizes.
void GiveTransposed(Call& call, Expr grad, const std::vector<Expr>& weights);

// Calls `emit` with x [C, H, W] or [N, C, H, W] as [N, H, W, C], so that this layout passes
// through.
template <typename F>
Expr OverImage(Expr x, F emit) {
  Dims sizes = x.sizes();
  if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
  const Expr y{x.call, InChannelsLast(*x.call, Reshape(x, sizes).value, emit)};
  return x.rank() == 3 ? Reshape(y, {y.sizes().begin() + 1, y.sizes().end()}) : y;
}

// Repeats each element of the last two dimensions `rows` times vertically and `columns` times
// horizontally.
Expr RepeatedInPlane(Expr x, int64_t rows, int64_t columns);

}  // namespace hpu::compiler
