// Gradients of convolutions.
//
// Of the input: the transposed convolution of the result's gradient, or (grouped) a convolution by
// the mirrored weight. Of the weight: one product per tap, over all positions of all images. With
// the image padded and the result's gradient padded to the same rows and columns, one tap sees the
// image shifted by a constant number of positions, so that both operands of its product are read
// where they lie:
//   weight[r, s] = image[shift(r, s) : ...]^T  x  gradient[0 : ...]       positions x channels each
// A stride is first taken apart into images of every stride-th pixel.
#include <algorithm>

#include "compiler_server/passes/decompose/conv_window.h"
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// A two-dimensional convolution in the device's form: image [N, H, W, C], result [N, Ho, Wo, K].
struct Conv {
  ConvWindow window;
  Value* image = nullptr;   // large side: what the window slides over
  Value* result = nullptr;  // small side
  Value* weight = nullptr;  // [R, S, C / groups, K]
  int64_t kernel(size_t i) const { return weight->type.sizes[i]; }
};

// Cuts or pads dimension `dim` at its end.
Value* WithSize(Call& call, Value* x, int64_t dim, int64_t size) {
  const int64_t now = x->type.sizes[dim];
  if (size <= now) return call.b.Slice(x, dim, 0, size);
  Dims low(x->type.rank(), 0);
  Dims high = low;
  high[dim] = size - now;
  return call.b.Pad(x, low, high, 0);
}

// Rows and columns of [N, H, W, C]: `low` zeros in front, then cut or padded to `room`.
Value* InRoom(Call& call, Value* x, const int64_t (&low)[2], const int64_t (&room)[2]) {
  Dims before(4, 0);
  Dims after(4, 0);
  for (size_t i = 0; i < 2; ++i) {
    const auto dim = static_cast<int64_t>(i + 1);
    x = call.b.Slice(x, dim, 0, std::min(x->type.sizes[dim], room[i] - low[i]));
    before[dim] = low[i];
    after[dim] = room[i] - low[i] - x->type.sizes[dim];
  }
  const auto none = [](int64_t size) { return size == 0; };
  if (std::all_of(before.begin(), before.end(), none) &&
      std::all_of(after.begin(), after.end(), none)) {
    return x;
  }
  return call.b.Pad(x, before, after, 0);
}

// Groups of channels [L, C] -> [groups, L, C / groups]; as it is without groups.
Value* ByGroup(Call& call, Value* x, int64_t groups) {
  if (groups == 1) return x;
  const Dims& sizes = x->type.sizes;
  return call.b.Permute(call.b.Reshape(x, {sizes[0], groups, sizes[1] / groups}), {1, 0, 2});
}

// One tap: a [L, C], b [L, K] -> [C / groups, K].
Value* Tap(Call& call, Value* a, Value* b, int64_t groups) {
  const int64_t channels = a->type.sizes[1];
  const int64_t results = b->type.sizes[1];
  if (groups == channels && groups == results) {  // no product, but sums of products
    Expr product = In(call, a) * In(call, b);
    return call.b.Cast(Sum(product, {0}).value, a->type.dtype);
  }
  if (groups == 1) return call.b.Matmul(a, b, true);
  Value* each = call.b.Matmul(ByGroup(call, a, groups), ByGroup(call, b, groups), true);
  return call.b.Reshape(call.b.Permute(each, {1, 0, 2}), {channels / groups, results});
}

// What a tap sees: the image from position `by` on.
struct Shifted {
  Value* x = nullptr;
  int64_t by = 0;
};

constexpr int64_t kFewChannels = 16;

// [R, S, C / groups, K]
Value* WeightGradient(Call& call, const Conv& conv) {
  const Dims& stride = conv.window.stride;
  const Dims& small = conv.result->type.sizes;
  // Rows and columns of an image of every stride-th pixel, with room for the last tap.
  int64_t room[2];
  int64_t image_room[2];
  int64_t low[2];
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (conv.kernel(i) - 1) * conv.window.dilation[i] / stride[i];
    room[i] = small[i + 1] + reach;
    image_room[i] = room[i] * stride[i];
    low[i] = conv.window.pads[2 * i];
  }
  // Far padding of a short kernel may reach past all that is read.
  if (low[0] > image_room[0] || low[1] > image_room[1]) {
    return call.Refuse("padding beyond the image"), conv.weight;
  }
  Value* image = InRoom(call, conv.image, low, image_room);
  Value* gradient = InRoom(call, conv.result, {0, 0}, room);
  const int64_t positions = small[0] * room[0] * room[1];
  const int64_t channels = image->type.sizes[3];
  gradient = call.b.Reshape(gradient, {positions, small[3]});
  const auto phase = [&](int64_t row, int64_t column) {
    Value* x = call.b.Slice(image, 1, row, image->type.sizes[1], stride[0]);
    x = call.b.Slice(x, 2, column, image->type.sizes[2], stride[1]);
    return call.b.Reshape(x, {positions, channels});
  };
  const auto at = [&](int64_t r, int64_t s) {
    const int64_t row = r * conv.window.dilation[0];
    const int64_t column = s * conv.window.dilation[1];
    return Shifted{phase(row % stride[0], column % stride[1]),
                   row / stride[0] * room[1] + column / stride[1]};
  };
  if (channels <= kFewChannels && conv.window.groups == 1) {
    // Side by side, so that the product is not a narrow one for each tap.
    const int64_t most = positions - at(conv.kernel(0) - 1, conv.kernel(1) - 1).by;
    std::vector<Value*> columns;
    for (int64_t r = 0; r < conv.kernel(0); ++r) {
      for (int64_t s = 0; s < conv.kernel(1); ++s) {
        const Shifted tap = at(r, s);
        columns.push_back(call.b.Slice(tap.x, 0, tap.by, tap.by + most));
      }
    }
    Value* y = call.b.Matmul(call.b.Concat(std::move(columns), 1),
                             call.b.Slice(gradient, 0, 0, most), true);
    return call.b.Reshape(y, conv.weight->type.sizes);
  }
  std::vector<Value*> taps;
  for (int64_t r = 0; r < conv.kernel(0) && !call.refused(); ++r) {
    for (int64_t s = 0; s < conv.kernel(1); ++s) {
      const Shifted shifted = at(r, s);
      Value* x = call.b.Slice(shifted.x, 0, shifted.by, positions);
      Value* dy = call.b.Slice(gradient, 0, 0, positions - shifted.by);
      Value* tap = Tap(call, x, dy, conv.window.groups);
      taps.push_back(call.b.Reshape(tap, {1, channels / conv.window.groups, small[3]}));
    }
  }
  if (call.refused()) return conv.weight;
  return call.b.Reshape(call.b.Concat(std::move(taps), 0), conv.weight->type.sizes);
}

Value* Mirrored(Call& call, Value* x, int64_t dim) {
  const int64_t size = x->type.sizes[dim];
  if (size < 2) return x;
  return call.b.Gather(x, call.b.Iota(static_cast<double>(size - 1), -1, DType::kI32, size), dim);
}

// Of [R, S, C / groups, K] for the way back: [R, S, K / groups, C], taps in reverse.
Value* Reversed(Call& call, Value* weight, int64_t groups) {
  const Dims sizes = weight->type.sizes;
  const int64_t inputs = sizes[2];
  const int64_t outputs = sizes[3] / groups;
  Value* apart = call.b.Reshape(weight, {sizes[0], sizes[1], inputs, groups, outputs});
  Value* back = call.b.Permute(apart, {0, 1, 4, 3, 2});
  back = call.b.Reshape(back, {sizes[0], sizes[1], outputs, groups * inputs});
  return Mirrored(call, Mirrored(call, back, 0), 1);
}

// Zeros after each row and column, so that a stride becomes 1.
Value* Spread(Call& call, Value* x, const Dims& stride) {
  Dims sizes = x->type.sizes;
  for (size_t dim : {2, 1}) {
    const int64_t step = stride[dim - 1];
    if (step == 1) continue;
    const auto at = sizes.begin() + static_cast<int64_t>(dim) + 1;
    const int64_t inner = NumElements(std::span(at, sizes.end()));
    x = call.b.Reshape(x, {x->type.elements() / inner, 1, inner});
    x = call.b.Pad(x, {0, 0, 0}, {0, step - 1, 0}, 0);
    sizes[dim] *= step;
    x = call.b.Reshape(x, sizes);
  }
  return x;
}

// Grouped: as a convolution, which takes any number of groups.
Value* GroupedInputGradient(Call& call, const Conv& conv) {
  Value* gradient = Spread(call, conv.result, conv.window.stride);
  ConvWindow window{.stride = {1, 1}, .dilation = conv.window.dilation};
  window.groups = conv.window.groups;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t reach = (conv.kernel(i) - 1) * window.dilation[i];
    const int64_t low = reach - conv.window.pads[2 * i];
    if (low < 0) return call.Refuse("padding beyond the kernel"), conv.image;
    const int64_t size = conv.image->type.sizes[i + 1];
    const auto dim = static_cast<int64_t>(i + 1);
    gradient =
        WithSize(call, gradient, dim, std::min(gradient->type.sizes[dim], size + reach - low));
    window.pads.insert(window.pads.end(), {low, size + reach - low - gradient->type.sizes[dim]});
  }
  Value* weight = Reversed(call, conv.weight, window.groups);
  return call.b.Emit(OpKind::kConv, {gradient, weight}, WindowAttrs(window));
}

bool IsPointwise(const Conv& conv) {
  const ConvWindow& window = conv.window;
  const auto none = [](int64_t pad) { return pad == 0; };
  return conv.kernel(0) == 1 && conv.kernel(1) == 1 && window.stride == Dims{1, 1} &&
         window.groups == 1 && std::all_of(window.pads.begin(), window.pads.end(), none);
}

Value* InputGradient(Call& call, const Conv& conv) {
  if (conv.window.groups > 1) return GroupedInputGradient(call, conv);
  const Dims& small = conv.result->type.sizes;
  if (IsPointwise(conv)) {
    const Dims matrix(conv.weight->type.sizes.begin() + 2, conv.weight->type.sizes.end());
    Value* rows = call.b.Reshape(conv.result, {small[0] * small[1] * small[2], small[3]});
    Value* y = call.b.Matmul(rows, call.b.Reshape(conv.weight, matrix), false, true);
    return call.b.Reshape(y, conv.image->type.sizes);
  }
  const TensorType type = ir::Contiguous(conv.result->type.dtype, conv.image->type.sizes);
  return call.b.Emit(OpKind::kConvTranspose, {conv.result, conv.weight}, WindowAttrs(conv.window),
                     &type);
}

// A spatial dimension of size 1 in front of the only one of [N, C, L].
Value* WithHeight(Call& call, Value* x) {
  if (x->type.rank() != 3) return x;
  Dims sizes = x->type.sizes;
  sizes.insert(sizes.end() - 1, 1);
  return call.b.Reshape(x, sizes);
}

// convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask)
void ConvolutionBackward(Call& call) {
  Value* gradient = call.Tensor("grad_output");
  Value* x = call.Tensor("input");
  Value* weight = call.Tensor("weight");
  const int64_t spatial = x->type.rank() - 2;
  const std::vector<bool> wanted = call.Bools("output_mask");
  if ((spatial != 1 && spatial != 2) || wanted.size() != 3 || x->type.elements() == 0 ||
      gradient->type.elements() == 0) {
    return call.Refuse("gradient of a convolution of ", ToText(x->type));
  }
  ConvWindow window;
  window.stride = PerDimension(call, call.Ints("stride"), spatial);
  window.pads = BothSides(PerDimension(call, call.Ints("padding"), spatial));
  window.dilation = PerDimension(call, call.Ints("dilation"), spatial);
  window.groups = call.Int("groups");
  if (spatial == 1) {
    window.stride.insert(window.stride.begin(), 1);
    window.pads.insert(window.pads.begin(), {0, 0});
    window.dilation.insert(window.dilation.begin(), 1);
  }
  if (call.refused()) return;
  const auto last = [&](Value* value) {
    return call.b.Permute(WithHeight(call, value), ChannelsLast(4));
  };
  Value* images = last(x);
  Value* gradients = last(gradient);
  const bool transposed = call.Bool("transposed");
  Conv conv{window, images, gradients, call.b.Permute(WithHeight(call, weight), WeightPerm(4))};
  // Transposed, the result is what the window slid over, and the way back is a convolution.
  if (transposed) std::swap(conv.image, conv.result);
  std::vector<Value*> results(3);
  if (wanted[0] && call.used(0)) {
    Value* y = transposed
                   ? call.b.Emit(OpKind::kConv, {gradients, conv.weight}, WindowAttrs(window))
                   : InputGradient(call, conv);
    if (call.refused()) return;
    results[0] = call.b.Reshape(call.b.Permute(y, ChannelsFirst(4)), call.type(0).sizes);
  }
  if (wanted[1] && call.used(1)) {
    Value* y = WeightGradient(call, conv);
    if (call.refused()) return;
    results[1] = call.b.Reshape(call.b.Permute(y, {3, 2, 0, 1}), call.type(1).sizes);
  }
  if (wanted[2] && call.used(2)) {
    results[2] = Declared(call, 2, Sum(In(call, gradients), {0, 1, 2}, false));
  }
  call.Return(std::move(results));
}

constexpr HandlerRow kRows[] = {
    {"aten.convolution_backward.default", ConvolutionBackward},
};

}  // namespace

std::span<const HandlerRow> ConvBackwardRows() { return kRows; }

}  // namespace hpu::compiler
