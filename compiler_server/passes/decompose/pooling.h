// Windows of pooling over images, which lie as [N, H, W, C]; shared by the pooling of images and
// of volumes.
#pragma once

#include <optional>

#include "compiler_server/passes/decompose/conv_window.h"
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

struct PoolWindow {
  Dims kernel;
  Dims stride;
  Dims pads;  // low and high per dimension
  Dims dilation = {1, 1};
  bool ceil = false;
};

// Sums of the window, or its average: `divisor` 0 divides by the number of elements.
Value* PoolAverage(Call& call, Value* image, const PoolWindow& window, bool count_padding,
                   int64_t divisor);

// kMaxPool, or kMaxPoolIndex: where in its image's plane each maximum was, in i32.
Value* PoolMaximum(Call& call, OpKind op, Value* image, const PoolWindow& window);

struct Maxima {
  Value* value = nullptr;
  Value* place = nullptr;  // nullptr if not asked for
};
Maxima PoolMaxima(Call& call, Value* image, const PoolWindow& window, bool places);
// Adaptive pooling to so many rows and columns.
Maxima AdaptiveMaxima(Call& call, Value* image, int64_t rows, int64_t columns, bool places);

// The window of adaptive pooling from `in` to `out`, each of two sizes, if all are of one size.
std::optional<PoolWindow> EvenWindow(std::span<const int64_t> in, std::span<const int64_t> out);

// Places of maxima, read from memory, as a recipe takes them: narrow on their way, so that a
// partition saves two bytes and not eight. `places`: the number of elements of a plane.
Value* NarrowPlaces(Call& call, Value* index, int64_t places);

// Average pooling along one dimension.
struct PoolingAlong {
  int64_t input, output, kernel, stride, pad;

  // No window reaches over an edge.
  bool Plain() const { return pad == 0 && (output - 1) * stride + kernel <= input; }
  bool Tiles() const { return Plain() && kernel == stride; }
};
// [outputs, inputs], 1 where a window covers an input.
Expr Coverage(Call& call, const PoolingAlong& pool);
// Elements that each window divides by, padding included or not: [outputs].
Expr WindowSizes(Call& call, const PoolingAlong& pool, bool padding);
// The same with the shares of adaptive pooling: output o covers [floor(o * in / out),
// ceil((o + 1) * in / out)) evenly.
Expr AdaptiveWeights(Call& call, int64_t inputs, int64_t outputs);

// `emit` on x [C, H, W] or [N, C, H, W] as [N, H, W, C], so that this layout passes through.
template <typename F>
Expr OverImage(Expr x, F emit) {
  Dims sizes = x.sizes();
  if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
  const Expr y{x.call, InChannelsLast(*x.call, Reshape(x, sizes).value, emit)};
  return x.rank() == 3 ? Reshape(y, {y.sizes().begin() + 1, y.sizes().end()}) : y;
}

// Each element of the last two dimensions so often in each direction.
Expr RepeatedInPlane(Expr x, int64_t rows, int64_t columns);

}  // namespace hpu::compiler
