// Rewrites the gradients of convolutions.
//
// The input's gradient is the transposed convolution of the result's gradient. The weight's
// gradient has an op of its own.
#include <algorithm>
#include <utility>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/windows/volume.h"

namespace hpu::compiler {
namespace {

// A two-dimensional convolution in the device's form: image [N, H, W, C], result [N, Ho, Wo, K].
struct BackwardConv {
  ConvWindow window;
  Value* image = nullptr;   // the large side, which the window slides over
  Value* result = nullptr;  // small side
  Value* weight = nullptr;  // [R, S, C / groups, K]
  int64_t kernel(size_t i) const { return weight->type.sizes[i]; }
};

// Returns true if each pixel of the result reads exactly one pixel of the image, whatever the
// stride.
bool IsPixelwise(const BackwardConv& conv) {
  const auto none = [](int64_t pad) { return pad == 0; };
  return conv.kernel(0) == 1 && conv.kernel(1) == 1 &&
         std::all_of(conv.window.pads.begin(), conv.window.pads.end(), none);
}

bool IsPointwise(const BackwardConv& conv) {
  return IsPixelwise(conv) && conv.window.stride == Dims{1, 1} && conv.window.groups == 1;
}

// Returns the gradient [R, S, C / groups, K]. A 1x1 window with a stride never reads the pixels
// between its steps. Without those pixels the gradient is a product of matrices.
Value* WeightGradient(Call& call, const BackwardConv& conv) {
  Value* image = conv.image;
  ConvWindow window = conv.window;
  if (IsPixelwise(conv)) {
    for (int dim = 0; dim < 2; ++dim) {
      int64_t& stride = window.stride[dim];
      const int64_t limit = (conv.result->type.sizes[1 + dim] - 1) * stride + 1;
      image = call.b.Slice(image, 1 + dim, 0, limit, std::exchange(stride, 1));
    }
  }
  return call.b.Emit(OpKind::kConvWeightGradient, {conv.result, image}, WindowAttrs(window),
                     &conv.weight->type);
}

Value* InputGradient(Call& call, const BackwardConv& conv) {
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

// Inserts a spatial dimension of size 1 in front of the only one of [N, C, L].
Value* WithHeight(Call& call, Value* x) {
  if (x->type.rank() != 3) return x;
  Dims sizes = x->type.sizes;
  sizes.insert(sizes.end() - 1, 1);
  return call.b.Reshape(x, sizes);
}

// Returns the window of a convolution of one, two or three dimensions; one dimension gets a height
// of 1.
ConvWindow TakeWindow(Call& call, int64_t spatial) {
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
  return window;
}

// The operands of a call, and the two-dimensional convolution that has its gradients.
struct Backward {
  Value* x = nullptr;
  Value* gradient = nullptr;
  bool volume = false;
  // In a transposed convolution the window slides over the result, and the input's gradient is a
  // convolution.
  bool transposed = false;
  DepthWindow depth = {};  // of a volume
  BackwardConv conv;
  // The gradient of the result in the form of `conv`.
  Value* gradients() const { return transposed ? conv.image : conv.result; }
};

Backward TakeBackward(Call& call, ConvWindow window) {
  Backward back;
  back.x = call.Tensor("input");
  back.gradient = call.Tensor("grad_output");
  back.volume = back.x->type.rank() == 5;
  back.transposed = call.Bool("transposed");
  Value* weight = call.Tensor("weight");
  if (back.volume) back.depth = TakeDepth(window, weight->type.sizes[2]);
  // For volumes, the side that the window slides over gets the depths that one window covers as
  // additional channels.
  const auto last = [&](Value* value, bool slid_over) {
    value = WithHeight(call, value);
    value = call.b.Permute(value, ChannelsLast(value->type.rank()));
    if (!back.volume) return value;
    return slid_over ? DepthToChannels(call, value, back.depth) : Images(call, value);
  };
  Value* images = last(back.x, !back.transposed);
  Value* gradients = last(back.gradient, back.transposed);
  Value* flat_weight = back.volume ? PlaneWeight(call, weight)
                                   : call.b.Permute(WithHeight(call, weight), WeightPerm(4));
  back.conv = {window, images, gradients, flat_weight};
  if (back.transposed) std::swap(back.conv.image, back.conv.result);
  return back;
}

// These return the call's results; they may refuse the call.
Value* InputResult(Call& call, const Backward& back) {
  const BackwardConv& conv = back.conv;
  Value* y = back.transposed
                 ? call.b.Emit(OpKind::kConv, {conv.image, conv.weight}, WindowAttrs(conv.window))
                 : InputGradient(call, conv);
  if (call.refused()) return nullptr;
  if (back.volume) {
    Dims sizes;
    for (int64_t dim : ChannelsLast(5)) sizes.push_back(back.x->type.sizes[dim]);
    y = back.transposed ? Volumes(call, y, sizes[0]) : ChannelsToDepth(call, y, back.depth, sizes);
  }
  y = call.b.Permute(y, ChannelsFirst(y->type.rank()));
  return call.b.Reshape(y, call.type(0).sizes);
}

Value* WeightResult(Call& call, const Backward& back) {
  Value* y = WeightGradient(call, back.conv);
  if (call.refused()) return nullptr;
  y = back.volume ? VolumeWeight(call, y, call.type(1).sizes) : call.b.Permute(y, {3, 2, 0, 1});
  return call.b.Reshape(y, call.type(1).sizes);
}

Value* BiasResult(Call& call, const Backward& back) {
  const bool unfolded = back.volume && back.transposed;
  Value* plain =
      unfolded ? Images(call, call.b.Permute(back.gradient, ChannelsLast(5))) : back.gradients();
  return Declared(call, 2, Sum(In(call, plain), {0, 1, 2}, false));
}

// convolution_backward(grad, x, weight, bias_sizes, stride, padding, dilation, transposed,
// output_padding, groups, output_mask)
void ConvolutionBackward(Call& call) {
  const TensorType& type = call.Tensor("input")->type;
  const int64_t spatial = type.rank() - 2;
  const std::vector<bool> wanted = call.Bools("output_mask");
  if (spatial < 1 || spatial > 3 || wanted.size() != 3 || type.elements() == 0 ||
      call.Tensor("grad_output")->type.elements() == 0) {
    return call.Refuse("gradient of a convolution of ", ToText(type));
  }
  const ConvWindow window = TakeWindow(call, spatial);
  if (call.refused()) return;
  const Backward back = TakeBackward(call, window);
  std::vector<Value*> results(3);
  if (wanted[0] && call.used(0)) results[0] = InputResult(call, back);
  if (call.refused()) return;
  if (wanted[1] && call.used(1)) results[1] = WeightResult(call, back);
  if (call.refused()) return;
  if (wanted[2] && call.used(2)) results[2] = BiasResult(call, back);
  call.Return(std::move(results));
}

constexpr HandlerRow kConvBackwardRows[] = {
    {"aten.convolution_backward.default", ConvolutionBackward},
};

}  // namespace

std::span<const HandlerRow> ConvBackwardRows() { return kConvBackwardRows; }

}  // namespace hpu::compiler
