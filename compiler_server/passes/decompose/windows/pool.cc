// Rewrites pooling. Like convolutions, it is calculated with channels last, between permutations.
#include <algorithm>

#include "compiler_server/passes/decompose/indexing.h"
#include "compiler_server/passes/decompose/windows/pooling.h"

namespace hpu::compiler {
namespace {

// Returns the result of `emit` for the image as [N, H, W, C], in the declared sizes. The image is
// [C, H, W] or [N, C, H, W]. If `spatial` is 1 it may also be [C, L] or [N, C, L], and gets a
// height of 1.
template <typename F>
void GiveInChannelsLast(Call& call, int64_t spatial, F emit) {
  Value* x = call.Tensor(kSelf);
  const int64_t rank = x->type.rank();
  if (rank != spatial + 1 && rank != spatial + 2) {
    return call.Refuse("window over ", ToText(x->type));
  }
  Dims sizes = x->type.sizes;
  if (rank == spatial + 1) sizes.insert(sizes.begin(), 1);
  if (spatial == 1) sizes.insert(sizes.end() - 1, 1);
  Value* y = InChannelsLast(call, call.b.Reshape(x, sizes), emit);
  if (call.refused()) return;
  call.Return(call.b.Reshape(y, call.type().sizes));
}

// Returns a window argument for H and W. It may have one value for both or one for each. A 1-d
// argument gets `height` in front.
Dims ForPlane(Call& call, const Dims& values, int64_t spatial, int64_t height) {
  if (spatial == 1 && values.size() == 1) return {height, values[0]};
  if (values.size() == 1) return {values[0], values[0]};
  if (values.size() != 2 || spatial == 1) {
    call.Refuse("window argument ", ir::ToText(values));
    return {1, 1};
  }
  return values;
}

PoolWindow PoolWindowOf(Call& call, int64_t spatial, const Dims& dilation) {
  PoolWindow window;
  window.dilation = dilation;
  window.ceil = call.Bool("ceil_mode");
  const Dims kernel = call.Ints("kernel_size");
  Dims stride = call.Ints("stride");
  if (stride.empty()) stride = kernel;
  window.kernel = ForPlane(call, kernel, spatial, 1);
  window.stride = ForPlane(call, stride, spatial, 1);
  for (int64_t pad : ForPlane(call, call.Ints("padding"), spatial, 0)) {
    window.pads.insert(window.pads.end(), {pad, pad});
  }
  // With ceil_mode a window may be larger than the padded image. It is cut off there.
  const Dims& image = call.Tensor(kSelf)->type.sizes;
  for (int64_t i = 2 - spatial; i < 2 && image.size() > 1; ++i) {
    const int64_t room = image[image.size() - 2 + i] + 2 * window.pads[2 * i];
    window.kernel[i] = std::min(window.kernel[i], (room - 1) / dilation[i] + 1);
  }
  return window;
}

void GiveMaxPool(Call& call, int64_t spatial, const PoolWindow& window) {
  const auto emit = [&](OpKind op) {
    GiveInChannelsLast(call, spatial, [&](Value* x) {
      Value* y = PoolMaximum(call, op, x, window);
      return op == OpKind::kMaxPoolIndex ? call.b.Cast(y, DType::kI64) : y;
    });
    return call.results().empty() ? nullptr : call.results()[0];
  };
  // A gradient reads the place of each maximum.
  Value* index = call.result_count() > 1 && call.used(1) ? emit(OpKind::kMaxPoolIndex) : nullptr;
  call.Return({emit(OpKind::kMaxPool), index});
}

// (x, kernel, stride, padding, dilation, ceil_mode)
void EmitMaxPool(Call& call, int64_t spatial) {
  const Dims dilation = ForPlane(call, call.Ints("dilation"), spatial, 1);
  GiveMaxPool(call, spatial, PoolWindowOf(call, spatial, dilation));
}
void MaxPool1d(Call& call) { EmitMaxPool(call, 1); }
void MaxPool2d(Call& call) { EmitMaxPool(call, 2); }

// adaptive_max_pool2d(x, output_size)
void AdaptiveMaxPool2d(Call& call) {
  Value* x = call.Tensor(kSelf);
  const Dims in = x->type.sizes;
  const Dims& out = call.type().sizes;
  const size_t rank = in.size();
  if (rank < 3 || out.size() != rank || call.type().elements() == 0) {
    return call.Refuse("pooling of ", ir::ToText(in));
  }
  if (const auto even = EvenWindow(std::span(in).last(2), std::span(out).last(2))) {
    return GiveMaxPool(call, 2, *even);
  }
  const int64_t images = NumElements(std::span(in).first(rank - 2));
  x = call.b.Permute(call.b.Reshape(x, {1, images, in[rank - 2], in[rank - 1]}), {0, 2, 3, 1});
  const bool places = call.result_count() > 1 && call.used(1);
  const Maxima maxima = AdaptiveMaxima(call, x, out[rank - 2], out[rank - 1], places);
  const auto give = [&](Value* y) { return call.b.Reshape(call.b.Permute(y, {0, 3, 1, 2}), out); };
  if (call.refused()) return;
  call.Return(
      {give(maxima.value), places ? give(call.b.Cast(maxima.place, call.type(1).dtype)) : nullptr});
}

// (grad, x, ..., indices): adds every window's gradient at the place of its maximum.
void GiveMaxPoolGradient(Call& call, const PoolWindow& window) {
  Value* x = call.Tensor(kSelf);
  Value* grad = call.Tensor("grad_output");
  if (call.refused() || grad->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ToText(x->type));
  }
  const auto last = [&](Value* value) {
    Dims sizes = value->type.sizes;
    if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
    return call.b.Permute(call.b.Reshape(value, sizes), {0, 2, 3, 1});
  };
  const Dims& sizes = x->type.sizes;
  Value* index =
      NarrowPlaces(call, last(call.Tensor("indices")), sizes[sizes.size() - 2] * sizes.back());
  Value* y = call.b.Emit(OpKind::kMaxPoolGradient,
                         {last(call.b.Cast(grad, x->type.dtype)), index, last(x)},
                         {{AttrKey::kKernel, window.kernel},
                          {AttrKey::kStride, window.stride},
                          {AttrKey::kPads, window.pads},
                          {AttrKey::kDilation, window.dilation},
                          {AttrKey::kCeil, window.ceil}});
  if (call.refused()) return;
  call.Return(call.b.Reshape(call.b.Permute(y, {0, 3, 1, 2}), call.type().sizes));
}
void MaxPool2dBackward(Call& call) {
  const Dims dilation = ForPlane(call, call.Ints("dilation"), 2, 1);
  GiveMaxPoolGradient(call, PoolWindowOf(call, 2, dilation));
}

// (grad, x, indices): does the same for windows of different sizes, with channels last, so that
// neighbours in memory are summed side by side.
void UnevenMaxPoolBackward(Call& call) {
  Value* grad = call.Tensor("grad_output");
  Dims sizes = call.Tensor(kSelf)->type.sizes;
  if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
  const Dims& small = grad->type.sizes;
  const int64_t windows = small[small.size() - 2] * small.back();
  const auto last = [&](Value* x) {
    return call.b.Permute(call.b.Reshape(x, {sizes[0], sizes[1], windows}), {0, 2, 1});
  };
  Value* zeros =
      call.b.Full(0, Widened(grad->type.dtype), {sizes[0], sizes[2] * sizes[3], sizes[1]});
  Value* sum = AddAt(call, zeros, 1, last(call.Tensor("indices")),
                     last(call.b.Cast(grad, zeros->type.dtype)));
  sum = call.b.Permute(sum, {0, 2, 1});
  Give(call, {&call, call.b.Reshape(sum, call.type().sizes)});
}
void AdaptiveMaxPool2dBackward(Call& call) {
  const Value* grad = call.Tensor("grad_output");
  const Dims in = call.Tensor(kSelf)->type.sizes;
  if (in.size() < 3 || grad->type.sizes.size() != in.size() || grad->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(in));
  }
  const auto even = EvenWindow(std::span(in).last(2), std::span(grad->type.sizes).last(2));
  if (!even.has_value()) return UnevenMaxPoolBackward(call);
  GiveMaxPoolGradient(call, *even);
}

// (x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
void EmitAvgPool(Call& call, int64_t spatial) {
  const PoolWindow window = PoolWindowOf(call, spatial, {1, 1});
  const bool count_padding = call.Bool("count_include_pad");
  const int64_t divisor = call.Has("divisor_override") ? call.Int("divisor_override") : 0;
  GiveInChannelsLast(call, spatial, [&](Value* x) {
    return PoolAverage(call, x, window, count_padding, divisor);
  });
}
void AvgPool1d(Call& call) { EmitAvgPool(call, 1); }
void AvgPool2d(Call& call) { EmitAvgPool(call, 2); }

void AdaptiveAvgPool2d(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t rank = x->type.rank();
  const Dims& sizes = call.type().sizes;
  if (rank < 3 || static_cast<int64_t>(sizes.size()) != rank) {
    return call.Refuse("pooling of ", ToText(x->type));
  }
  if (sizes[rank - 2] == 1 && sizes[rank - 1] == 1) {
    return call.Return(call.b.Reduce(OpKind::kReduceMean, x, {rank - 2, rank - 1}, true));
  }
  GiveInChannelsLast(call, 2, [&](Value* last) {
    const TensorType type = ir::Contiguous(
        call.dtype(), {last->type.sizes[0], sizes[rank - 2], sizes[rank - 1], last->type.sizes[3]});
    return call.b.Emit(OpKind::kAdaptiveAvgPool, {last}, {}, &type);
  });
}

constexpr HandlerRow kPoolRows[] = {
    {"aten._adaptive_avg_pool2d.default", AdaptiveAvgPool2d},
    {"aten.adaptive_avg_pool2d.default", AdaptiveAvgPool2d},
    {"aten.adaptive_max_pool2d.default", AdaptiveMaxPool2d},
    {"aten.adaptive_max_pool2d_backward.default", AdaptiveMaxPool2dBackward},
    {"aten.avg_pool1d.default", AvgPool1d},
    {"aten.avg_pool2d.default", AvgPool2d},
    {"aten.max_pool1d.default", MaxPool1d},
    {"aten.max_pool2d.default", MaxPool2d},
    {"aten.max_pool2d_with_indices.default", MaxPool2d},
    {"aten.max_pool2d_with_indices_backward.default", MaxPool2dBackward},
};

}  // namespace

std::span<const HandlerRow> PoolRows() { return kPoolRows; }

}  // namespace hpu::compiler
