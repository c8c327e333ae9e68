// Convolutions. The device's form has channels last: x [N, spatial, C], weight [spatial, C/groups,
// K]. Each call is wrapped in the permutations that get there; passes/layout moves them out of
// chains.
#include "compiler_server/passes/decompose/conv_window.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kInput = "input";
constexpr std::string_view kWeight = "weight";
constexpr std::string_view kBias = "bias";

// A 1-d convolution is a 2-d one of height 1.
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
  // PyTorch's weight is [C in, C out / groups, spatial]: that of the convolution run backwards.
  weight = call.b.Permute(weight, WeightPerm(weight->type.rank()));
  Finish(call, call.b.Emit(OpKind::kConvTranspose, {x, weight}, WindowAttrs(window), &type), bias);
}

// Number of spatial dimensions, or a refusal (unbatched inputs have another rank than the weight).
int64_t SpatialDims(Call& call) {
  const int64_t rank = call.Tensor(kInput)->type.rank();
  if (rank < 3 || rank > 5 || call.Tensor(kWeight)->type.rank() != rank) {
    call.Refuse("convolution of ", ToText(call.Tensor(kInput)->type));
    return 1;
  }
  return rank - 2;
}

// convNd(x, weight, bias, stride, padding, dilation, groups)
void Conv(Call& call) {
  const int64_t spatial = SpatialDims(call);
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.pads = BothSides(PerDimension(call, call.Ints("padding"), spatial));
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  window.groups = call.Int("groups");
  EmitConv(call, std::move(window));
}

// convNd.padding: "same" (stride 1 only) or "valid"
void ConvPadding(Call& call) {
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
  EmitConv(call, std::move(window));
}

// convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...)
void Convolution(Call& call) {
  const int64_t spatial = SpatialDims(call);
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.pads = BothSides(PerDimension(call, call.Ints("padding"), spatial));
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  window.groups = call.Int("groups");
  if (call.Bool("transposed")) return EmitConvTranspose(call, std::move(window));
  EmitConv(call, std::move(window));
}

// conv_transposeNd(x, weight, bias, stride, padding, output_padding, groups, dilation)
void ConvTranspose(Call& call) {
  const int64_t spatial = SpatialDims(call);
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.pads = BothSides(PerDimension(call, call.Ints("padding"), spatial));
  window.groups = call.Int("groups");
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  EmitConvTranspose(call, std::move(window));
}

constexpr HandlerRow kRows[] = {
    {"aten._convolution.default", Convolution},
    {"aten.conv1d.default", Conv},
    {"aten.conv1d.padding", ConvPadding},
    {"aten.conv2d.default", Conv},
    {"aten.conv2d.padding", ConvPadding},
    {"aten.conv3d.default", Conv},
    {"aten.conv3d.padding", ConvPadding},
    {"aten.conv_transpose1d.default", ConvTranspose},
    {"aten.conv_transpose2d.input", ConvTranspose},
    {"aten.conv_transpose3d.input", ConvTranspose},
    {"aten.convolution.default", Convolution},
};

}  // namespace

std::span<const HandlerRow> ConvRows() { return kRows; }

}  // namespace hpu::compiler
