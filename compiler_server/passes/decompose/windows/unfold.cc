// Rewrites windows as a dimension of their own, the sums that undo it, and padding with elements of
// the tensor.
#include <algorithm>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"

namespace hpu::compiler {
namespace {

// Each element of a window is one slice. With more than this the graph would be long.
constexpr int64_t kMostTaps = 64;

// unfold(x, dimension, size, step) makes a dimension of windows; the elements of a window become
// the last dimension.
void Unfold(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dimension", x->type.rank());
  const int64_t size = call.Int("size");
  const int64_t step = call.Int("step");
  if (call.refused() || x->type.rank() == 0 || size > kMostTaps || size < 1) {
    return call.Refuse("windows of ", size, " elements");
  }
  Dims sizes = call.type().sizes;
  const int64_t count = sizes[dim];
  sizes.back() = 1;
  std::vector<Value*> taps;
  for (int64_t i = 0; i < size; ++i) {
    Value* tap = call.b.Slice(x, dim, i, i + (count - 1) * step + 1, step);
    taps.push_back(call.b.Reshape(tap, sizes));
  }
  call.Return(call.b.Concat(std::move(taps), static_cast<int64_t>(sizes.size()) - 1));
}

// unfold_backward(grad, input_sizes, dim, size, step)
void UnfoldBackward(Call& call) {
  const Expr grad = In(call, "grad_in");
  const Dims sizes = call.Ints("input_sizes");
  const int64_t dim = call.WrapDim(call.Int("dim"), static_cast<int64_t>(sizes.size()));
  const int64_t size = call.Int("size");
  if (call.refused() || sizes.empty() || size > kMostTaps || grad.value->type.elements() == 0) {
    return call.Refuse("windows of ", size, " elements");
  }
  Expr sum;
  for (int64_t i = 0; i < size; ++i) {
    Dims tap_sizes = grad.sizes();
    tap_sizes.pop_back();
    Value* tap = Reshape(Slice(grad, grad.rank() - 1, i, i + 1), tap_sizes).value;
    const Expr placed{&call, PlaceAlong(call, tap, dim, i, call.Int("step"), sizes[dim])};
    sum = sum.value == nullptr ? placed : sum + placed;
  }
  Give(call, sum);
}

struct Patches {
  Dims kernel, dilation, padding, stride;
  int64_t rows = 0, columns = 0;  // number of patches
};

Patches ReadPatches(Call& call, int64_t height, int64_t width) {
  Patches patches{call.Ints("kernel_size"), call.Ints("dilation"), call.Ints("padding"),
                  call.Ints("stride")};
  for (Dims* dims : {&patches.kernel, &patches.dilation, &patches.padding, &patches.stride}) {
    if (dims->size() == 1) dims->push_back(dims->front());
    if (dims->size() != 2) call.Refuse("window argument ", ir::ToText(*dims));
  }
  if (call.refused()) return patches;
  const auto count = [&](size_t i, int64_t size) {
    const int64_t reach = patches.dilation[i] * (patches.kernel[i] - 1) + 1;
    return (size + 2 * patches.padding[i] - reach) / patches.stride[i] + 1;
  };
  patches.rows = count(0, height);
  patches.columns = count(1, width);
  if (patches.kernel[0] * patches.kernel[1] > kMostTaps || patches.rows < 1 ||
      patches.columns < 1) {
    call.Refuse("patches of ", ir::ToText(patches.kernel));
  }
  return patches;
}

// im2col(x, kernel, dilation, padding, stride): [N, C, H, W] -> [N, C * taps, patches]
void ImageToColumns(Call& call) {
  Value* x = call.Tensor(kSelf);
  const Dims sizes = x->type.sizes;
  if (sizes.size() != 4) return call.Refuse("patches of ", ToText(x->type));
  const Patches patches = ReadPatches(call, sizes[2], sizes[3]);
  if (call.refused()) return;
  const Dims pads = {0, 0, patches.padding[0], patches.padding[1]};
  if (pads[2] != 0 || pads[3] != 0) x = call.b.Pad(x, pads, pads, 0);
  std::vector<Value*> taps;
  for (int64_t r = 0; r < patches.kernel[0]; ++r) {
    for (int64_t s = 0; s < patches.kernel[1]; ++s) {
      const int64_t row = r * patches.dilation[0];
      const int64_t column = s * patches.dilation[1];
      Value* tap = call.b.Slice(x, 2, row, row + (patches.rows - 1) * patches.stride[0] + 1,
                                patches.stride[0]);
      tap = call.b.Slice(tap, 3, column, column + (patches.columns - 1) * patches.stride[1] + 1,
                         patches.stride[1]);
      taps.push_back(call.b.Reshape(tap, {sizes[0], sizes[1], 1, patches.rows * patches.columns}));
    }
  }
  call.Return(call.b.Reshape(call.b.Concat(std::move(taps), 2), call.type().sizes));
}

// col2im(x, output_size, kernel, dilation, padding, stride) adds every tap at the place that it
// came from.
void ColumnsToImage(Call& call) {
  const Expr x = In(call, kSelf);
  const Dims& sizes = call.type().sizes;
  if (sizes.size() != 4 || x.rank() != 3) return call.Refuse("patches of ", ToText(x.value->type));
  const Patches patches = ReadPatches(call, sizes[2], sizes[3]);
  if (call.refused()) return;
  const int64_t taps = patches.kernel[0] * patches.kernel[1];
  const Expr apart = Reshape(x, {sizes[0] * sizes[1], taps, patches.rows, patches.columns});
  const int64_t height = sizes[2] + 2 * patches.padding[0];
  const int64_t width = sizes[3] + 2 * patches.padding[1];
  Expr sum;
  for (int64_t i = 0; i < taps; ++i) {
    const int64_t row = i / patches.kernel[1] * patches.dilation[0];
    const int64_t column = i % patches.kernel[1] * patches.dilation[1];
    Value* tap =
        PlaceAlong(call, Slice(apart, 1, i, i + 1).value, 2, row, patches.stride[0], height);
    const Expr placed{&call, PlaceAlong(call, tap, 3, column, patches.stride[1], width)};
    sum = sum.value == nullptr ? placed : sum + placed;
  }
  sum = Slice(sum, 2, patches.padding[0], patches.padding[0] + sizes[2]);
  sum = Slice(sum, 3, patches.padding[1], patches.padding[1] + sizes[3]);
  Give(call, Reshape(sum, sizes));
}

// pixel_unshuffle(x, factor): [.., C, H * r, W * r] -> [.., C * r * r, H, W]
void PixelUnshuffle(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t factor = call.Int("downscale_factor");
  const Dims& sizes = x->type.sizes;
  const size_t rank = sizes.size();
  if (call.refused() || rank < 3 || factor < 1) return call.Refuse("pixels of ", ToText(x->type));
  const int64_t images = NumElements(std::span(sizes).first(rank - 2));
  x = call.b.Reshape(x,
                     {images, sizes[rank - 2] / factor, factor, sizes[rank - 1] / factor, factor});
  call.Return(call.b.Reshape(call.b.Permute(x, {0, 2, 4, 1, 3}), call.type().sizes));
}

// Returns the position that each of `size` padded elements reads, along one dimension.
Expr Source(Call& call, int64_t size, int64_t inner, int64_t low, bool reflects) {
  const Expr at = Expr{&call, call.b.Iota(static_cast<double>(-low), 1, DType::kI32, size)};
  const auto last = static_cast<double>(inner - 1);
  if (!reflects) return Min(Max(at, 0), last);
  return last - Abs(last - Abs(at));
}

// reflection_padNd, replication_padNd (x, padding): the padding starts with low and high of the
// last dimension.
void PadByElements(Call& call, bool reflects) {
  Value* x = call.Tensor(kSelf);
  const Dims pads = call.Ints("padding");
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    const int64_t dim = x->type.rank() - 1 - static_cast<int64_t>(i);
    const bool cuts = pads[2 * i] < 0 || pads[2 * i + 1] < 0;
    if (dim < 0 || (reflects && cuts)) return call.Refuse("negative padding");
    const int64_t inner = x->type.sizes[dim];
    const int64_t size = inner + pads[2 * i] + pads[2 * i + 1];
    x = call.b.Gather(x, Source(call, size, inner, pads[2 * i], reflects).value, dim);
  }
  call.Return(x);
}

// (grad, x, padding): one dimension after the other, each padded element is added at the place that
// it was read from.
void PadByElementsBackward(Call& call, bool reflects) {
  Expr grad = In(call, "grad_output");
  const Dims sizes = call.Tensor(kSelf)->type.sizes;
  const Dims pads = call.Ints("padding");
  for (size_t i = 0; i < pads.size() / 2 && !call.refused(); ++i) {
    const int64_t dim = grad.rank() - 1 - static_cast<int64_t>(i);
    const bool cuts = pads[2 * i] < 0 || pads[2 * i + 1] < 0;
    if (dim < 0 || (reflects && cuts)) return call.Refuse("negative padding");
    Dims inner = grad.sizes();
    const Expr source = Source(call, inner[dim], sizes[dim], pads[2 * i], reflects);
    inner[dim] = sizes[dim];
    Value* zeros = call.b.Full(0, grad.dtype(), inner);
    grad = {&call, AddRows(call, zeros, dim, source.value, grad.value)};
  }
  Give(call, grad);
}
void Reflect(Call& call) { PadByElements(call, true); }
void Replicate(Call& call) { PadByElements(call, false); }
void ReflectBackward(Call& call) { PadByElementsBackward(call, true); }
void ReplicateBackward(Call& call) { PadByElementsBackward(call, false); }

constexpr HandlerRow kUnfoldRows[] = {
    {"aten.col2im.default", ColumnsToImage},
    {"aten.im2col.default", ImageToColumns},
    {"aten.pixel_unshuffle.default", PixelUnshuffle},
    {"aten.reflection_pad1d.default", Reflect},
    {"aten.reflection_pad1d_backward.default", ReflectBackward},
    {"aten.reflection_pad2d.default", Reflect},
    {"aten.reflection_pad2d_backward.default", ReflectBackward},
    {"aten.reflection_pad3d.default", Reflect},
    {"aten.reflection_pad3d_backward.default", ReflectBackward},
    {"aten.replication_pad1d.default", Replicate},
    {"aten.replication_pad1d_backward.default", ReplicateBackward},
    {"aten.replication_pad2d.default", Replicate},
    {"aten.replication_pad2d_backward.default", ReplicateBackward},
    {"aten.replication_pad3d.default", Replicate},
    {"aten.replication_pad3d_backward.default", ReplicateBackward},
    {"aten.unfold.default", Unfold},
    {"aten.unfold_backward.default", UnfoldBackward},
    {"aten.unfold_copy.default", Unfold},
};

}  // namespace

std::span<const HandlerRow> UnfoldRows() { return kUnfoldRows; }

}  // namespace hpu::compiler
