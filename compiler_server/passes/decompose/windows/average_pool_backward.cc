// Rewrites the gradients of average pooling. Averages are linear along each dimension. Their
// gradients multiply by the transposed weights, which are calculated from positions, or spread
// evenly where windows do not overlap.
#include <algorithm>

#include "compiler_server/passes/decompose/windows/pooling.h"

namespace hpu::compiler {
namespace {

// avg_pool2d_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad,
// divisor_override)
void AvgPoolBackward(Call& call) {
  Expr grad = In(call, kGrad);
  const Dims sizes = call.Tensor(kSelf)->type.sizes;
  if (sizes.size() < 3 || grad.value->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(sizes));
  }
  const Dims kernel = call.Ints("kernel_size");
  Dims stride = call.Ints("stride");
  if (stride.empty()) stride = kernel;
  const Dims padding = call.Ints("padding");
  const auto along = [&](size_t i) {
    const auto entry = [&](const Dims& values) {
      return values.size() == 1 ? values[0] : values[i];
    };
    const size_t dim = sizes.size() - 2 + i;
    return PoolingAlong{sizes[dim], grad.sizes()[dim], entry(kernel), entry(stride),
                        entry(padding)};
  };
  const PoolingAlong rows = along(0);
  const PoolingAlong columns = along(1);
  if (call.Has("divisor_override")) {
    grad = grad * (1 / static_cast<double>(call.Int("divisor_override")));
  } else if (rows.Plain() && columns.Plain()) {
    grad = grad * (1 / static_cast<double>(rows.kernel * columns.kernel));
  } else {
    const bool padded = call.Bool("count_include_pad");
    const Expr height = Reshape(WindowSizes(call, rows, padded), {rows.output, 1});
    grad = grad / (height * WindowSizes(call, columns, padded));
  }
  if (rows.Tiles() && columns.Tiles()) {
    const Expr y = RepeatedInPlane(grad, rows.kernel, columns.kernel);
    Dims high(sizes.size(), 0);
    for (size_t i = 0; i < sizes.size(); ++i) high[i] = sizes[i] - y.sizes()[i];
    const bool whole = y.sizes() == sizes;
    return Give(call, whole ? y : Expr{&call, call.b.Pad(y.value, Dims(high.size(), 0), high, 0)});
  }
  GiveTransposed(call, grad, {Coverage(call, rows), Coverage(call, columns)});
}

// _adaptive_avg_pool2d_backward(grad, x)
void AdaptiveAvgPoolBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Dims sizes = call.Tensor(kSelf)->type.sizes;
  const size_t rank = sizes.size();
  if (rank < 3 || grad.value->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(sizes));
  }
  const int64_t rows = grad.sizes()[rank - 2];
  const int64_t columns = grad.sizes()[rank - 1];
  const int64_t height = sizes[rank - 2];
  const int64_t width = sizes[rank - 1];
  if (height % rows == 0 && width % columns == 0) {
    const auto count = static_cast<double>(height / rows * (width / columns));
    return Give(call, RepeatedInPlane(grad * (1 / count), height / rows, width / columns));
  }
  GiveTransposed(call, grad,
                 {AdaptiveWeights(call, height, rows), AdaptiveWeights(call, width, columns)});
}

constexpr HandlerRow kAveragePoolBackwardRows[] = {
    {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward},
    {"aten.avg_pool2d_backward.default", AvgPoolBackward},
};

}  // namespace

std::span<const HandlerRow> AveragePoolBackwardRows() { return kAveragePoolBackwardRows; }

}  // namespace hpu::compiler
