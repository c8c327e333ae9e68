// Rewrites pooling over volumes as pooling over images, twice. The first one pools the plane of
// each depth. The second one pools along the depth: there an image has one column, and all elements
// of a plane are its channels. Of equal maxima the first one in its plane counts, and then the
// first plane.
#include <algorithm>
#include <array>
#include <tuple>

#include "compiler_server/passes/decompose/indexing.h"
#include "compiler_server/passes/decompose/windows/pooling.h"
#include "compiler_server/passes/decompose/windows/volume.h"

namespace hpu::compiler {
namespace {

constexpr size_t kSpatial = 3;

// Last returns x [C, D, H, W] or [N, C, D, H, W] as [N, D, H, W, C]. ToDeclared transforms back to
// the declared sizes.
Value* Last(Call& call, Value* x) {
  Dims sizes = x->type.sizes;
  if (sizes.size() == kSpatial + 1) sizes.insert(sizes.begin(), 1);
  return call.b.Permute(call.b.Reshape(x, sizes), ChannelsLast(kSpatial + 2));
}
Value* ToDeclared(Call& call, Value* y, size_t result = 0) {
  y = call.b.Permute(y, ChannelsFirst(kSpatial + 2));
  return call.b.Reshape(call.b.Cast(y, call.type(result).dtype), call.type(result).sizes);
}

bool IsVolume(Call& call, const TensorType& type) {
  const bool whole = type.rank() == kSpatial + 1 || type.rank() == kSpatial + 2;
  if (!whole || type.elements() == 0 || call.type().elements() == 0) {
    call.Refuse("pooling of volumes in ", ToText(type));
  }
  return !call.refused();
}

// Returns planes [N * D, H, W, C] as images of D rows and one column.
Value* Column(Call& call, Value* planes, int64_t batch) {
  const int64_t depth = planes->type.sizes[0] / batch;
  return call.b.Reshape(planes, {batch, depth, 1, planes->type.elements() / (batch * depth)});
}

// Returns the pooled column with the sizes of `planes`, which Column() had merged.
Value* FromColumn(Call& call, Value* column, Value* planes) {
  const Dims& sizes = planes->type.sizes;
  return call.b.Reshape(
      column, {column->type.sizes[0], column->type.sizes[1], sizes[1], sizes[2], sizes[3]});
}

struct VolumeWindow {
  Dims kernel, stride, padding;
  PoolWindow plane, depth;
};
VolumeWindow ReadWindow(Call& call, bool dilated) {
  VolumeWindow window;
  window.kernel = PerDimension(call, call.Ints("kernel_size"), kSpatial);
  const Dims stride = call.Ints("stride");
  window.stride = stride.empty() ? window.kernel : PerDimension(call, stride, kSpatial);
  window.padding = PerDimension(call, call.Ints("padding"), kSpatial);
  const Dims dilation =
      dilated ? PerDimension(call, call.Ints("dilation"), kSpatial) : Dims(kSpatial, 1);
  // With ceil_mode a window may be larger than the padded volume. It is cut off there.
  const Dims& sizes = call.Tensor(kSelf)->type.sizes;
  for (size_t i = 0; i < kSpatial; ++i) {
    const int64_t room = sizes[sizes.size() - kSpatial + i] + 2 * window.padding[i];
    window.kernel[i] = std::min(window.kernel[i], (room - 1) / dilation[i] + 1);
  }
  const auto& [kernel, step, padding] = std::tie(window.kernel, window.stride, window.padding);
  const bool ceil = call.Bool("ceil_mode");
  window.plane = {{kernel[1], kernel[2]},
                  {step[1], step[2]},
                  {padding[1], padding[1], padding[2], padding[2]},
                  {dilation[1], dilation[2]},
                  ceil};
  window.depth = {
      {kernel[0], 1}, {step[0], 1}, {padding[0], padding[0], 0, 0}, {dilation[0], 1}, ceil};
  return window;
}

using AlongEach = std::array<PoolingAlong, kSpatial>;

// `whole` and `pooled` are sizes that end with those of the volumes.
AlongEach Along(const VolumeWindow& window, const Dims& whole, const Dims& pooled) {
  AlongEach along;
  for (size_t i = 0; i < kSpatial; ++i) {
    along[i] = {whole[whole.size() - kSpatial + i], pooled[pooled.size() - kSpatial + i],
                window.kernel[i], window.stride[i], window.padding[i]};
  }
  return along;
}

bool ArePlain(const AlongEach& along) {
  return std::all_of(along.begin(), along.end(), [](const auto& pool) { return pool.Plain(); });
}

// Divides sums of windows [.., D, H, W] by the divisor of each window.
Expr Divided(Call& call, Expr sum, const AlongEach& along) {
  if (call.Has("divisor_override")) {
    return sum / static_cast<double>(call.Int("divisor_override"));
  }
  if (ArePlain(along)) {
    return sum / static_cast<double>(along[0].kernel * along[1].kernel * along[2].kernel);
  }
  const bool padded = call.Bool("count_include_pad");
  const Expr depth = Reshape(WindowSizes(call, along[0], padded), {along[0].output, 1, 1});
  const Expr height = Reshape(WindowSizes(call, along[1], padded), {along[1].output, 1});
  return sum / (depth * height * WindowSizes(call, along[2], padded));
}

// avg_pool3d(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override). The sums
// are calculated in f32, because they do not fit into f16 and because averages are rounded only
// once.
void AvgPool3d(Call& call) {
  const Expr x = In(call, kSelf);
  if (!IsVolume(call, x.value->type)) return;
  const VolumeWindow window = ReadWindow(call, false);
  if (call.refused()) return;
  Value* last = Last(call, x.value);
  Value* planes = PoolAverage(call, Images(call, last), window.plane, true, 1);
  Value* column = Column(call, planes, last->type.sizes[0]);
  column = PoolAverage(call, column, window.depth, true, 1);
  if (call.refused()) return;
  Value* sum = call.b.Permute(FromColumn(call, column, planes), ChannelsFirst(kSpatial + 2));
  const AlongEach along = Along(window, x.sizes(), sum->type.sizes);
  Give(call, Reshape(Divided(call, {&call, sum}, along), call.type().sizes));
}

// Returns volumes as [M, D, H, W].
Expr Merged(Expr x) {
  const Dims& sizes = x.sizes();
  const auto inner = std::span(sizes).last(kSpatial);
  return Reshape(x, {NumElements(sizes) / NumElements(inner), inner[0], inner[1], inner[2]});
}

// Repeats each element of [M, D, H, W] by the given number in each direction, and fills the end of
// each dimension with zeros.
void GiveRepeated(Call& call, Expr grad, int64_t depth, int64_t rows, int64_t columns) {
  Expr y = RepeatedInPlane(grad, rows, columns);
  const Dims sizes = y.sizes();
  y = Reshape(y, {sizes[0], sizes[1], 1, sizes[2] * sizes[3]});
  y = Expand(y, {sizes[0], sizes[1], depth, sizes[2] * sizes[3]});
  y = Reshape(y, {sizes[0], sizes[1] * depth, sizes[2], sizes[3]});
  const Dims whole = Merged({&call, call.Tensor(kSelf)}).sizes();
  Dims high(whole.size(), 0);
  for (size_t i = 0; i < whole.size(); ++i) high[i] = whole[i] - y.sizes()[i];
  if (y.sizes() != whole) y = {&call, call.b.Pad(y.value, Dims(high.size(), 0), high, 0)};
  Give(call, Reshape(y, call.type().sizes));
}

// Multiplies each dimension of [M, D, H, W] by weights [outputs, inputs].
void GiveBack(Call& call, Expr grad, Expr depth, Expr rows, Expr columns) {
  Value* y = call.b.Matmul(grad.value, columns.value);
  const Dims sizes = y->type.sizes;
  y = call.b.Reshape(y, {sizes[0] * sizes[1], sizes[2], sizes[3]});
  y = call.b.Matmul(rows.value, y, true);
  y = call.b.Reshape(y, {sizes[0], sizes[1], y->type.elements() / (sizes[0] * sizes[1])});
  y = call.b.Matmul(depth.value, y, true);
  if (call.refused()) return;
  Give(call, {&call, call.b.Reshape(y, call.type().sizes)});
}

// avg_pool3d_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad,
// divisor_override)
void AvgPool3dBackward(Call& call) {
  const Expr grad = Merged(In(call, kGrad));
  const Value* x = call.Tensor(kSelf);
  if (!IsVolume(call, x->type)) return;
  const VolumeWindow window = ReadWindow(call, false);
  if (call.refused()) return;
  const AlongEach along = Along(window, x->type.sizes, grad.sizes());
  const Expr each = Divided(call, grad, along);
  if (std::all_of(along.begin(), along.end(), [](const auto& pool) { return pool.Tiles(); })) {
    return GiveRepeated(call, each, along[0].kernel, along[1].kernel, along[2].kernel);
  }
  GiveBack(call, each, Coverage(call, along[0]), Coverage(call, along[1]),
           Coverage(call, along[2]));
}

// _adaptive_avg_pool3d(x, output_size)
void AdaptiveAvgPool3d(Call& call) {
  const Expr x = In(call, kSelf);
  if (!IsVolume(call, x.value->type)) return;
  const Dims& sizes = call.type().sizes;
  const size_t rank = sizes.size();
  const auto pooled = std::span(sizes).last(kSpatial);
  if (NumElements(pooled) == 1) {
    const auto first = static_cast<int64_t>(rank - kSpatial);
    return Give(call, Mean(x, {first, first + 1, first + 2}));
  }
  Value* last = Last(call, x.value);
  const auto pool = [&](Value* image, int64_t rows, int64_t columns) {
    const Dims& in = image->type.sizes;
    const TensorType type = ir::Contiguous(image->type.dtype, {in[0], rows, columns, in[3]});
    return call.b.Emit(OpKind::kAdaptiveAvgPool, {image}, {}, &type);
  };
  Value* planes = pool(Images(call, last), pooled[1], pooled[2]);
  Value* column = pool(Column(call, planes, last->type.sizes[0]), pooled[0], 1);
  call.Return(ToDeclared(call, FromColumn(call, column, planes)));
}

// _adaptive_avg_pool3d_backward(grad, x)
void AdaptiveAvgPool3dBackward(Call& call) {
  const Expr grad = Merged(In(call, kGrad));
  const Value* x = call.Tensor(kSelf);
  if (!IsVolume(call, x->type)) return;
  const auto in = std::span(x->type.sizes).last(kSpatial);
  const auto out = std::span(grad.sizes()).last(kSpatial);
  if (in[0] % out[0] == 0 && in[1] % out[1] == 0 && in[2] % out[2] == 0) {
    const auto count = static_cast<double>(NumElements(in) / NumElements(out));
    return GiveRepeated(call, grad / count, in[0] / out[0], in[1] / out[1], in[2] / out[2]);
  }
  GiveBack(call, grad, AdaptiveWeights(call, in[0], out[0]), AdaptiveWeights(call, in[1], out[1]),
           AdaptiveWeights(call, in[2], out[2]));
}

// `in_planes` and `along_depth` return the maxima of images, with or without their places.
template <typename InPlanes, typename AlongDepth>
void GiveMaxima(Call& call, InPlanes in_planes, AlongDepth along_depth) {
  Value* x = call.Tensor(kSelf);
  Value* last = Last(call, x);
  const bool places = call.result_count() > 1 && call.used(1);
  const Maxima planes = in_planes(Images(call, last), places);
  const int64_t batch = last->type.sizes[0];
  if (call.refused()) return;
  const Maxima column = along_depth(Column(call, planes.value, batch), places);
  if (call.refused()) return;
  std::vector<Value*> results = {ToDeclared(call, FromColumn(call, column.value, planes.value))};
  if (places) {
    Value* in_column =
        call.b.Emit(OpKind::kGatherElements, {Column(call, planes.place, batch), column.place},
                    {{AttrKey::kDim, int64_t{1}}});
    const auto plane = static_cast<double>(last->type.sizes[2] * last->type.sizes[3]);
    const Expr place = Expr{&call, in_column} + Expr{&call, column.place} * plane;
    if (call.refused()) return;
    results.push_back(ToDeclared(call, FromColumn(call, place.value, planes.value), 1));
  }
  call.Return(std::move(results));
}

// max_pool3d_with_indices(x, kernel, stride, padding, dilation, ceil_mode)
void MaxPool3d(Call& call) {
  if (!IsVolume(call, call.Tensor(kSelf)->type)) return;
  const VolumeWindow window = ReadWindow(call, true);
  if (call.refused()) return;
  const auto with = [&](const PoolWindow& pool) {
    return [&](Value* image, bool places) { return PoolMaxima(call, image, pool, places); };
  };
  GiveMaxima(call, with(window.plane), with(window.depth));
}

// adaptive_max_pool3d(x, output_size)
void AdaptiveMaxPool3d(Call& call) {
  if (!IsVolume(call, call.Tensor(kSelf)->type)) return;
  const auto out = std::span(call.type().sizes).last(kSpatial);
  const auto with = [&](int64_t rows, int64_t columns) {
    return [&call, rows, columns](Value* image, bool places) {
      return AdaptiveMaxima(call, image, rows, columns, places);
    };
  };
  GiveMaxima(call, with(out[1], out[2]), with(out[0], 1));
}

// (grad, x, ..., indices): adds each gradient at the place of its maximum within the last `spatial`
// dimensions. With channels last, neighbours in memory are summed side by side.
void GiveToPlaces(Call& call, size_t spatial) {
  Value* grad = call.Tensor(kGrad);
  const Dims& sizes = call.Tensor(kSelf)->type.sizes;
  if (call.refused() || sizes.size() <= spatial || grad->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(sizes));
  }
  const int64_t plane = NumElements(std::span(sizes).last(spatial));
  const int64_t channels = sizes[sizes.size() - spatial - 1];
  const int64_t batch = NumElements(sizes) / (plane * channels);
  const auto last = [&](Value* x) {
    const int64_t windows = x->type.elements() / (batch * channels);
    return call.b.Permute(call.b.Reshape(x, {batch, channels, windows}), {0, 2, 1});
  };
  const DType wide = Widened(grad->type.dtype);
  Value* zeros = call.b.Full(0, wide, {batch, plane, channels});
  Value* index = NarrowPlaces(call, last(call.Tensor("indices")), plane);
  Value* sum = AddAt(call, zeros, 1, index, last(call.b.Cast(grad, wide)));
  sum = call.b.Permute(sum, {0, 2, 1});
  Give(call, {&call, call.b.Reshape(sum, call.type().sizes)});
}
void ToPlacesInVolumes(Call& call) { GiveToPlaces(call, kSpatial); }
void ToPlacesInImages(Call& call) { GiveToPlaces(call, 2); }

constexpr HandlerRow kVolumePoolRows[] = {
    {"aten._adaptive_avg_pool3d.default", AdaptiveAvgPool3d},
    {"aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPool3dBackward},
    {"aten.adaptive_max_pool3d.default", AdaptiveMaxPool3d},
    {"aten.adaptive_max_pool3d_backward.default", ToPlacesInVolumes},
    {"aten.avg_pool3d.default", AvgPool3d},
    {"aten.avg_pool3d_backward.default", AvgPool3dBackward},
    {"aten.fractional_max_pool2d_backward.default", ToPlacesInImages},
    {"aten.fractional_max_pool3d_backward.default", ToPlacesInVolumes},
    {"aten.max_pool3d_with_indices.default", MaxPool3d},
    {"aten.max_pool3d_with_indices_backward.default", ToPlacesInVolumes},
};

}  // namespace

std::span<const HandlerRow> VolumePoolRows() { return kVolumePoolRows; }

}  // namespace hpu::compiler
