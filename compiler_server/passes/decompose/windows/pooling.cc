#include "compiler_server/passes/decompose/windows/pooling.h"

#include <algorithm>

namespace hpu::compiler {
namespace {

// The windows of adaptive pooling along one dimension: output o covers [floor(o * in / out),
// ceil((o + 1) * in / out)).
struct AdaptiveWindows {
  int64_t longest = 0;
  Value* index = nullptr;  // [outputs * longest]: each window's inputs; the last one fills it up
};
AdaptiveWindows WindowsOf(Call& call, int64_t inputs, int64_t outputs) {
  AdaptiveWindows windows;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t end = ((o + 1) * inputs + outputs - 1) / outputs;
    windows.longest = std::max(windows.longest, end - o * inputs / outputs);
  }
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  const Expr output{&call, call.b.Reshape(call.b.Iota(0, 1, DType::kI32, outputs), {outputs, 1})};
  const Expr place{&call, call.b.Iota(0, 1, DType::kI32, windows.longest)};
  const Expr begin = Apply(OpKind::kFloorDiv, output * in, out);
  const Expr end = Apply(OpKind::kFloorDiv, output * in + (in + out - 1), out);
  const Expr index = Apply(OpKind::kMin, begin + place, end - 1.0);
  windows.index = call.b.Reshape(index.value, {outputs * windows.longest});
  return windows;
}

// The windows differ and may overlap. Copied side by side and filled up to the longest one, they
// are even.
Maxima UnevenMaxima(Call& call, Value* image, int64_t out_rows, int64_t out_columns, bool places) {
  const int64_t width = image->type.sizes[2];
  const AdaptiveWindows rows = WindowsOf(call, image->type.sizes[1], out_rows);
  const AdaptiveWindows columns = WindowsOf(call, width, out_columns);
  image = call.b.Gather(call.b.Gather(image, rows.index, 1), columns.index, 2);
  const Dims kernel = {rows.longest, columns.longest};
  Maxima maxima = PoolMaxima(call, image, {kernel, kernel, {0, 0, 0, 0}}, places);
  if (!places || call.refused()) return maxima;
  const Dims sizes = maxima.place->type.sizes;
  const Expr flat{&call, call.b.Reshape(maxima.place, {NumElements(sizes)})};
  const auto laid_out = static_cast<double>(out_columns * columns.longest);
  const Expr row = Apply(OpKind::kFloorDiv, flat, laid_out);
  const Expr read_row{&call, call.b.Gather(rows.index, row.value, 0)};
  const Expr read_column{&call, call.b.Gather(columns.index, (flat - row * laid_out).value, 0)};
  const Expr place = read_row * static_cast<double>(width) + read_column;
  maxima.place = call.b.Reshape(place.value, sizes);
  return maxima;
}

}  // namespace

Value* PoolAverage(Call& call, Value* image, const PoolWindow& window, bool count_padding,
                   int64_t divisor) {
  return call.b.Emit(OpKind::kAvgPool, {image},
                     {{AttrKey::kKernel, window.kernel},
                      {AttrKey::kStride, window.stride},
                      {AttrKey::kPads, window.pads},
                      {AttrKey::kCeil, window.ceil},
                      {AttrKey::kCountPadding, count_padding},
                      {AttrKey::kDivisor, divisor}});
}

Value* PoolMaximum(Call& call, OpKind op, Value* image, const PoolWindow& window) {
  return call.b.Emit(op, {image},
                     {{AttrKey::kKernel, window.kernel},
                      {AttrKey::kStride, window.stride},
                      {AttrKey::kPads, window.pads},
                      {AttrKey::kDilation, window.dilation},
                      {AttrKey::kCeil, window.ceil}});
}

Maxima PoolMaxima(Call& call, Value* image, const PoolWindow& window, bool places) {
  return {PoolMaximum(call, OpKind::kMaxPool, image, window),
          places ? PoolMaximum(call, OpKind::kMaxPoolIndex, image, window) : nullptr};
}

Maxima AdaptiveMaxima(Call& call, Value* image, int64_t rows, int64_t columns, bool places) {
  const Dims out = {rows, columns};
  const std::optional<PoolWindow> even =
      EvenWindow(std::span(image->type.sizes).subspan(1, 2), out);
  return even.has_value() ? PoolMaxima(call, image, *even, places)
                          : UnevenMaxima(call, image, rows, columns, places);
}

std::optional<PoolWindow> EvenWindow(std::span<const int64_t> in, std::span<const int64_t> out) {
  if (in[0] % out[0] != 0 || in[1] % out[1] != 0) return std::nullopt;
  const Dims kernel = {in[0] / out[0], in[1] / out[1]};
  return PoolWindow{kernel, kernel, {0, 0, 0, 0}};
}

Value* NarrowPlaces(Call& call, Value* index, int64_t places) {
  if (places <= int64_t{INT16_MAX} + 1) index = call.b.Cast(index, DType::kI16);
  return call.b.Cast(index, DType::kI32);
}

Expr Coverage(Call& call, const PoolingAlong& pool) {
  const Expr input = Positions(call, pool.input, DType::kI32);
  const Expr first = Reshape(Positions(call, pool.output, DType::kI32), {pool.output, 1}) *
                         static_cast<double>(pool.stride) -
                     static_cast<double>(pool.pad);
  const Expr inside = (input >= first) & (input < first + static_cast<double>(pool.kernel));
  return Cast(inside, DType::kF32);
}

Expr WindowSizes(Call& call, const PoolingAlong& pool, bool padding) {
  const Expr first = Positions(call, pool.output, DType::kI32) * static_cast<double>(pool.stride) -
                     static_cast<double>(pool.pad);
  const auto last = static_cast<double>(pool.input + (padding ? pool.pad : 0));
  const Expr end = Min(first + static_cast<double>(pool.kernel), last);
  return Cast(end - (padding ? first : Max(first, 0)), DType::kF32);
}

Expr AdaptiveWeights(Call& call, int64_t inputs, int64_t outputs) {
  const Expr input = Positions(call, inputs, DType::kI32);
  const Expr output = Reshape(Positions(call, outputs, DType::kI32), {outputs, 1});
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  const Expr begin = Apply(OpKind::kFloorDiv, output * in, out);
  const Expr end = Apply(OpKind::kFloorDiv, output * in + (in + out - 1), out);
  const Expr share = 1.0 / Cast(end - begin, DType::kF32);
  return Where((input >= begin) & (input < end), share, 0.0);
}

// The resize samples at the centres of pixels ("nearest_exact"). The edge of a pixel, divided by
// the factor, may be rounded into the neighbour (for example with 41 rows for each).
Expr RepeatedInPlane(Expr x, int64_t rows, int64_t columns) {
  return OverImage(x, [&](Value* last) {
    Dims sizes = last->type.sizes;
    sizes[1] *= rows;
    sizes[2] *= columns;
    const TensorType type = ir::Contiguous(last->type.dtype, std::move(sizes));
    return x.call->b.Emit(
        OpKind::kResize, {last},
        {{AttrKey::kMode, std::string("nearest_exact")}, {AttrKey::kAlignCorners, false}}, &type);
  });
}

void GiveTransposed(Call& call, Expr grad, const std::vector<Expr>& weights) {
  if (call.refused()) return;
  const Dims sizes = grad.sizes();
  const size_t first = sizes.size() - weights.size();
  Value* y = call.b.Matmul(grad.value, weights.back().value);
  int64_t after = y->type.sizes.back();
  for (size_t i = weights.size() - 1; i-- > 0;) {
    const int64_t before = NumElements(std::span(sizes).first(first + i));
    y = call.b.Reshape(y, {before, sizes[first + i], after});
    y = call.b.Matmul(weights[i].value, y, true);
    after *= weights[i].sizes().back();
  }
  Give(call, {&call, call.b.Reshape(y, call.type().sizes)});
}

}  // namespace hpu::compiler
