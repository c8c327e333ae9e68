#include "compiler_server/passes/decompose/windows/volume.h"

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"

namespace hpu::compiler {
namespace {

int64_t TakeFirst(Dims& dims) {
  const int64_t first = dims.front();
  dims.erase(dims.begin());
  return first;
}

}  // namespace

DepthWindow TakeDepth(ConvWindow& window, int64_t kernel) {
  DepthWindow depth{};
  depth.kernel = kernel;
  depth.stride = TakeFirst(window.stride);
  depth.dilation = TakeFirst(window.dilation);
  depth.low = TakeFirst(window.pads);
  depth.high = TakeFirst(window.pads);
  depth.groups = window.groups;
  return depth;
}

Value* DepthToChannels(Call& call, Value* x, const DepthWindow& depth) {
  const Dims sizes = x->type.sizes;
  const int64_t outputs = depth.Outputs(sizes[1]);
  const int64_t plane = sizes[2] * sizes[3] * sizes[4];
  x = call.b.Pad(call.b.Reshape(x, {sizes[0], sizes[1], plane}), {0, depth.low, 0},
                 {0, depth.high, 0}, 0);
  std::vector<Value*> taps;
  for (int64_t tap = 0; tap < depth.kernel; ++tap) {
    const int64_t first = tap * depth.dilation;
    Value* seen = call.b.Slice(x, 1, first, first + (outputs - 1) * depth.stride + 1, depth.stride);
    taps.push_back(call.b.Reshape(
        seen, {sizes[0] * outputs * sizes[2] * sizes[3], depth.groups, sizes[4] / depth.groups}));
  }
  Value* joined = taps.size() == 1 ? taps[0] : call.b.Concat(taps, 2);
  return call.b.Reshape(joined, {sizes[0] * outputs, sizes[2], sizes[3], depth.kernel * sizes[4]});
}

Value* ChannelsToDepth(Call& call, Value* y, const DepthWindow& depth, const Dims& sizes) {
  const int64_t outputs = y->type.sizes[0] / sizes[0];
  const int64_t channels = sizes[4] / depth.groups;
  const int64_t plane = sizes[2] * sizes[3] * sizes[4];
  const int64_t padded = sizes[1] + depth.low + depth.high;
  y = call.b.Reshape(
      y, {sizes[0] * outputs * sizes[2] * sizes[3], depth.groups, depth.kernel * channels});
  Expr sum{};
  for (int64_t tap = 0; tap < depth.kernel; ++tap) {
    Value* of_tap = call.b.Slice(y, 2, tap * channels, (tap + 1) * channels);
    of_tap = call.b.Reshape(of_tap, {sizes[0], outputs, plane});
    const Expr placed =
        In(call, PlaceAlong(call, of_tap, 1, tap * depth.dilation, depth.stride, padded));
    sum = tap == 0 ? placed : sum + placed;
  }
  Value* whole = call.b.Slice(sum.value, 1, depth.low, depth.low + sizes[1]);
  return call.b.Cast(call.b.Reshape(whole, sizes), y->type.dtype);
}

Value* Images(Call& call, Value* x) {
  const Dims& sizes = x->type.sizes;
  return call.b.Reshape(x, {sizes[0] * sizes[1], sizes[2], sizes[3], sizes[4]});
}

Value* Volumes(Call& call, Value* images, int64_t batch) {
  const Dims& sizes = images->type.sizes;
  return call.b.Reshape(images, {batch, sizes[0] / batch, sizes[1], sizes[2], sizes[3]});
}

Value* PlaneWeight(Call& call, Value* weight) {
  const Dims sizes = weight->type.sizes;
  return call.b.Reshape(call.b.Permute(weight, {3, 4, 2, 1, 0}),
                        {sizes[3], sizes[4], sizes[2] * sizes[1], sizes[0]});
}

Value* VolumeWeight(Call& call, Value* plane, const Dims& sizes) {
  Value* apart = call.b.Reshape(plane, {sizes[3], sizes[4], sizes[2], sizes[1], sizes[0]});
  return call.b.Permute(apart, {4, 3, 2, 0, 1});
}

}  // namespace hpu::compiler
