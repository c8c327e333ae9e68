// Rewrites convolutions. The device's form has channels last: x is [N, spatial, C] and the weight
// is [spatial, C/groups, K]. Each call is wrapped in the permutations from and to PyTorch's form,
// and passes/layout moves them out of chains. Where the device has no node for three spatial
// dimensions, the convolution is rewritten with two.
#include "compiler_server/passes/decompose/windows/volume.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kWeight = "weight";
constexpr std::string_view kBias = "bias";

// A 1-d convolution is rewritten as a 2-d one of height 1.
void AddHeight(Call& call, Value*& x, Value*& weight, ConvWindow& window) {
  const auto with_height = [&](Value* value) {
    Dims sizes = value->type.sizes;
    sizes.insert(sizes.end() - 1, 1);
    return call.b.Reshape(value, sizes);
  };
  x = with_height(x);
  weight = with_height(weight);
  window.stride.insert(window.stride.begin(), 1);
  window.pads.insert(window.pads.begin(), {0, 0});
  window.dilation.insert(window.dilation.begin(), 1);
}

void Finish(Call& call, Value* y, Value* bias) {
  if (bias != nullptr) y = call.b.Binary(OpKind::kAdd, y, bias);
  if (call.refused()) return;
  y = call.b.Permute(y, ChannelsFirst(y->type.rank()));
  call.Return(call.b.Reshape(y, call.type().sizes));
}

void EmitConv(Call& call, ConvWindow window) {
  Value* x = call.Tensor(kInput);
  Value* weight = call.Tensor(kWeight);
  Value* bias = call.OptionalTensor(kBias);
  if (call.refused()) return;
  if (x->type.rank() == 3) AddHeight(call, x, weight, window);
  x = call.b.Permute(x, ChannelsLast(x->type.rank()));
  weight = call.b.Permute(weight, WeightPerm(weight->type.rank()));
  Finish(call, call.b.Emit(OpKind::kConv, {x, weight}, WindowAttrs(window)), bias);
}

void EmitConvTranspose(Call& call, ConvWindow window) {
  Value* x = call.Tensor(kInput);
  Value* weight = call.Tensor(kWeight);
  Value* bias = call.OptionalTensor(kBias);
  Dims sizes = call.type().sizes;
  if (call.refused()) return;
  if (x->type.rank() == 3) {
    AddHeight(call, x, weight, window);
    sizes.insert(sizes.end() - 1, 1);
  }
  const Dims last = ChannelsLast(x->type.rank());
  TensorType type = call.type();
  type.sizes.clear();
  for (int64_t dim : last) type.sizes.push_back(sizes[dim]);
  x = call.b.Permute(x, last);
  // PyTorch's weight is [C in, C out / groups, spatial]. This is the weight of the convolution
  // whose gradient the transposed one is.
  weight = call.b.Permute(weight, WeightPerm(weight->type.rank()));
  Finish(call, call.b.Emit(OpKind::kConvTranspose, {x, weight}, WindowAttrs(window), &type), bias);
}

// Emits a convolution, or a transposed one, with three spatial dimensions as one over images.
void EmitVolumeConv(Call& call, ConvWindow window, bool transposed) {
  Value* x = call.Tensor(kInput);
  Value* weight = call.Tensor(kWeight);
  Value* bias = call.OptionalTensor(kBias);
  if (call.refused()) return;
  if (x->type.rank() != 5 || x->type.elements() == 0 || call.type().elements() == 0) {
    return call.Refuse("convolution of ", ToText(x->type));
  }
  const DepthWindow depth = TakeDepth(window, weight->type.sizes[2]);
  const Dims last = ChannelsLast(5);
  x = call.b.Permute(x, last);
  weight = PlaneWeight(call, weight);
  if (!transposed) {
    Value* y =
        call.b.Emit(OpKind::kConv, {DepthToChannels(call, x, depth), weight}, WindowAttrs(window));
    if (call.refused()) return;
    return Finish(call, Volumes(call, y, x->type.sizes[0]), bias);
  }
  Dims sizes;
  for (int64_t dim : last) sizes.push_back(call.type().sizes[dim]);
  Value* images = Images(call, x);
  const TensorType seen = ir::Contiguous(
      call.dtype(), {images->type.sizes[0], sizes[2], sizes[3], depth.kernel * sizes[4]});
  Value* y = call.b.Emit(OpKind::kConvTranspose, {images, weight}, WindowAttrs(window), &seen);
  if (call.refused()) return;
  Finish(call, ChannelsToDepth(call, y, depth, sizes), bias);
}

// Returns the number of spatial dimensions, or refuses the call (the rank of an unbatched input
// differs from the weight's).
int64_t SpatialDims(Call& call) {
  const int64_t rank = call.Tensor(kInput)->type.rank();
  if (rank < 3 || rank > 5 || call.Tensor(kWeight)->type.rank() != rank) {
    call.Refuse("convolution of ", ToText(call.Tensor(kInput)->type));
    return 1;
  }
  return rank - 2;
}

// convNd(x, weight, bias, stride, padding, dilation, groups)
ConvWindow ReadWindow(Call& call) {
  const int64_t spatial = SpatialDims(call);
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.pads = BothSides(PerDimension(call, call.Ints("padding"), spatial));
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  window.groups = call.Int("groups");
  return window;
}
void Conv(Call& call) { EmitConv(call, ReadWindow(call)); }
void VolumeConv(Call& call) { EmitVolumeConv(call, ReadWindow(call), false); }

// convNd.padding(x, weight, bias, stride, padding, dilation, groups): padding is "same" (stride 1
// only) or "valid".
ConvWindow ReadPadding(Call& call) {
  const int64_t spatial = SpatialDims(call);
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  window.groups = call.Int("groups");
  const bool same = call.Text("padding") == "same";
  for (int64_t i = 0; i < spatial && !call.refused(); ++i) {
    const int64_t kernel = call.Tensor(kWeight)->type.sizes[i + 2];
    const int64_t total = same ? window.dilation[i] * (kernel - 1) : 0;
    window.pads.insert(window.pads.end(), {total / 2, total - total / 2});
  }
  return window;
}
void ConvPadding(Call& call) { EmitConv(call, ReadPadding(call)); }
void VolumeConvPadding(Call& call) { EmitVolumeConv(call, ReadPadding(call), false); }

// convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...)
void Convolution(Call& call) {
  const bool transposed = call.Bool("transposed");
  ConvWindow window = ReadWindow(call);
  transposed ? EmitConvTranspose(call, std::move(window)) : EmitConv(call, std::move(window));
}
void VolumeConvolution(Call& call) {
  EmitVolumeConv(call, ReadWindow(call), call.Bool("transposed"));
}

// conv_transposeNd(x, weight, bias, stride, padding, output_padding, groups, dilation)
void ConvTranspose(Call& call) { EmitConvTranspose(call, ReadWindow(call)); }
void VolumeConvTranspose(Call& call) { EmitVolumeConv(call, ReadWindow(call), true); }

// conv_tbc(x [T, B, C], weight [K, C, C out], bias, pad): each sequence becomes a row with channels
// last, the device's form for images of height 1.
void ConvTimeFirst(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* weight = call.Tensor(kWeight);
  const int64_t pad = call.Int("pad");
  if (call.refused() || x->type.rank() != 3 || weight->type.rank() != 3) {
    return call.Refuse("convolution of ", ToText(x->type));
  }
  x = call.b.Permute(x, {1, 0, 2});
  const Dims sizes = weight->type.sizes;
  x = call.b.Reshape(x, {x->type.sizes[0], 1, x->type.sizes[1], x->type.sizes[2]});
  weight = call.b.Reshape(weight, {1, sizes[0], sizes[1], sizes[2]});
  const ConvWindow window{{1, 1}, {0, 0, pad, pad}, {1, 1}, 1};
  Value* y = call.b.Emit(OpKind::kConv, {x, weight}, WindowAttrs(window));
  y = call.b.Binary(OpKind::kAdd, y, call.Tensor(kBias));
  if (call.refused()) return;
  y = call.b.Reshape(y, {y->type.sizes[0], y->type.sizes[2], y->type.sizes[3]});
  call.Return(call.b.Permute(y, {1, 0, 2}));
}

constexpr HandlerRow kConvRows[] = {
    {"aten._convolution.default", Convolution, VolumeConvolution},
    {"aten.conv1d.default", Conv},
    {"aten.conv1d.padding", ConvPadding},
    {"aten.conv2d.default", Conv},
    {"aten.conv2d.padding", ConvPadding},
    {"aten.conv3d.default", Conv, VolumeConv},
    {"aten.conv3d.padding", ConvPadding, VolumeConvPadding},
    {"aten.conv_tbc.default", ConvTimeFirst},
    {"aten.conv_transpose1d.default", ConvTranspose},
    {"aten.conv_transpose2d.input", ConvTranspose},
    {"aten.conv_transpose3d.input", ConvTranspose, VolumeConvTranspose},
    {"aten.convolution.default", Convolution, VolumeConvolution},
};

}  // namespace

std::span<const HandlerRow> ConvRows() { return kConvRows; }

}  // namespace hpu::compiler
