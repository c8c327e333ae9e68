// Rewrites resizing and its gradients. Each dimension is resized by itself: an output is at a place
// in the input, and reads the inputs around it. The gradients multiply by the transposed weights.
#include <algorithm>
#include <array>
#include <string>

#include "compiler_server/passes/decompose/windows/pooling.h"

namespace hpu::compiler {
namespace {

enum class Interpolation { kNearest, kNearestExact, kLinear, kCubic };

// One dimension: `step` is the distance of neighbouring outputs, in places of the input.
struct Resizing {
  int64_t input, output;
  double step;
  bool of_sizes;  // the sizes alone determine the step
  bool align_corners;

  double last() const { return static_cast<double>(input - 1); }
  // Whether every input is copied to as many outputs, side by side.
  bool Copies() const { return !align_corners && of_sizes && output % input == 0; }
};

// Returns the scale factors that the caller gave for the dimensions. They are a list (.vec) or
// separate arguments; 0 stands for one that was not given.
std::vector<double> GivenFactors(Call& call, size_t count) {
  constexpr std::array<std::string_view, 3> kNames = {"scales_d", "scales_h", "scales_w"};
  std::vector<double> factors;
  if (call.target().ends_with(".vec")) {
    factors = call.Floats("scale_factors");
    factors.resize(count, 0);
  } else if (count == 1) {
    factors = {call.Float("scales", 0)};
  } else {
    for (size_t i = kNames.size() - count; i < kNames.size(); ++i) {
      factors.push_back(call.Float(kNames[i], 0));
    }
  }
  return factors;
}

// Returns the dimensions of an image whose first two are batch and channels. The CPU's kernels copy
// a dimension that keeps its size, whatever factor the caller gave; with the nearest input, where
// `by_sizes`, they also take the exact factor 2.
std::vector<Resizing> ReadResizing(Call& call, Interpolation mode, const Dims& input,
                                   const Dims& output, bool by_sizes) {
  const size_t count = output.size() - 2;
  if (output.size() < 3 || count > 3 || input.size() != output.size()) {
    call.Refuse("resize of ", ir::ToText(input));
    return {};
  }
  const bool aligns = mode == Interpolation::kLinear || mode == Interpolation::kCubic;
  const bool align_corners = aligns && call.Bool("align_corners");
  const std::vector<double> factors = GivenFactors(call, count);
  std::vector<Resizing> dims;
  for (size_t i = 0; i < count && !call.refused(); ++i) {
    const int64_t in = input[i + 2];
    const int64_t out = output[i + 2];
    const bool copies = in == out && (mode == Interpolation::kLinear ||
                                      (mode == Interpolation::kNearest && by_sizes));
    const bool doubles = out == 2 * in && mode == Interpolation::kNearest && by_sizes;
    const bool given = factors[i] > 0 && !copies && !doubles && !align_corners;
    const bool of_sizes =
        !given || static_cast<double>(in) * factors[i] == static_cast<double>(out);
    double step = given ? 1 / factors[i] : static_cast<double>(in) / static_cast<double>(out);
    if (align_corners) {
      step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    }
    dims.push_back({in, out, step, of_sizes, align_corners});
  }
  return dims;
}

// Returns the place in the input of each output, [outputs]. It may be outside of the input.
Expr SourcePlaces(Call& call, const Resizing& dim) {
  const Expr output = Positions(call, dim.output, DType::kF32);
  return dim.align_corners ? output * dim.step : (output + 0.5) * dim.step - 0.5;
}
// Returns the input that each output takes, [outputs].
Expr NearestInputs(Call& call, const Resizing& dim, Interpolation mode) {
  const Expr output = Positions(call, dim.output, DType::kF32);
  const Expr source =
      mode == Interpolation::kNearestExact ? (output + 0.5) * dim.step : output * dim.step;
  return Min(Apply(OpKind::kFloor, source), dim.last());
}

// Returns the weight of an input at a distance, by Keys' kernel with a = -0.75 like PyTorch ("Cubic
// convolution interpolation for digital image processing", 1981).
Expr CubicWeight(Expr distance) {
  constexpr double kA = -0.75;
  const Expr x = Abs(distance);
  const Expr near = ((x * (kA + 2)) - (kA + 3)) * x * x + 1.0;
  const Expr far = ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return Where(x <= 1.0, near, Where(x < 2.0, far, 0.0));
}
constexpr double kCubicTaps[] = {-1, 0, 1, 2};  // the inputs that an output reads, from its floor

// Returns x with one dimension resized.
Expr ResizedAlong(Call& call, Expr x, int64_t dim, const Resizing& along, Interpolation mode) {
  if (along.input == along.output && along.step == 1) return x;
  const auto read = [&](Expr at) {
    return Expr{&call, call.b.Gather(x.value, Cast(at, DType::kI32).value, dim)};
  };
  if (mode == Interpolation::kNearest || mode == Interpolation::kNearestExact) {
    return read(NearestInputs(call, along, mode));
  }
  Dims shape(x.sizes().size(), 1);
  shape[dim] = along.output;
  const Expr source = SourcePlaces(call, along);
  if (mode == Interpolation::kLinear) {
    const Expr inside = Max(source, 0);
    const Expr before = Min(Apply(OpKind::kFloor, inside), along.last());
    const Expr share = Reshape(Min(inside - before, 1), shape);
    return read(before) * (1.0 - share) + read(Min(before + 1.0, along.last())) * share;
  }
  const Expr below = Apply(OpKind::kFloor, source);
  Expr sum;
  for (const double tap : kCubicTaps) {
    const Expr at = below + tap;
    const Expr value = read(Min(Max(at, 0), along.last()));
    const Expr term = value * Reshape(CubicWeight(source - at), shape);
    sum = sum.value == nullptr ? term : sum + term;
  }
  return sum;
}

// The image (.vec calls it "input", the others "self"), in the declared sizes. It is calculated
// with channels last, between permutations.
void Resize(Call& call, Interpolation mode) {
  Value* x = call.Tensor(call.Has("input") ? "input" : kSelf);
  const Dims sizes = x->type.sizes;
  const Dims out = call.type().sizes;
  const bool is_plane = out.size() == 4;
  const std::vector<Resizing> dims = ReadResizing(call, mode, sizes, out, is_plane);
  const bool is_nearest = mode == Interpolation::kNearest || mode == Interpolation::kNearestExact;
  if (call.refused()) return;
  if (!IsFloat(call.dtype()) && !is_nearest) return call.Refuse("resize of ", ToText(x->type));
  if (call.type().elements() == 0) return call.Return(call.b.Full(0, call.dtype(), out));
  const bool of_sizes = std::ranges::all_of(dims, &Resizing::of_sizes);
  Value* y = InChannelsLast(call, x, [&](Value* last) {
    if (is_plane && of_sizes && mode != Interpolation::kCubic && IsFloat(call.dtype())) {
      const std::string name = mode == Interpolation::kLinear    ? "linear"
                               : mode == Interpolation::kNearest ? "nearest"
                                                                 : "nearest_exact";
      const TensorType type = ir::Contiguous(call.dtype(), {out[0], out[2], out[3], out[1]});
      return call.b.Emit(OpKind::kResize, {last},
                         {{AttrKey::kMode, name}, {AttrKey::kAlignCorners, dims[0].align_corners}},
                         &type);
    }
    Expr resized = is_nearest ? Expr{&call, last} : Wide(call, last);
    for (size_t i = 0; i < dims.size(); ++i) {
      resized = ResizedAlong(call, resized, static_cast<int64_t>(i) + 1, dims[i], mode);
    }
    return call.b.Cast(resized.value, call.dtype());
  });
  if (!call.refused()) call.Return(y);
}
void Nearest(Call& call) { Resize(call, Interpolation::kNearest); }
void NearestExact(Call& call) { Resize(call, Interpolation::kNearestExact); }
void Linear(Call& call) { Resize(call, Interpolation::kLinear); }
void Cubic(Call& call) { Resize(call, Interpolation::kCubic); }

// Returns the sums over blocks of `rows` times `columns` elements.
Expr BlockSums(Expr x, int64_t rows, int64_t columns) {
  return OverImage(x, [&](Value* last) {
    const Dims block = {rows, columns};
    return x.call->b.Emit(OpKind::kAvgPool, {last},
                          {{AttrKey::kKernel, block},
                           {AttrKey::kStride, block},
                           {AttrKey::kPads, Dims{0, 0, 0, 0}},
                           {AttrKey::kCeil, false},
                           {AttrKey::kCountPadding, false},
                           {AttrKey::kDivisor, int64_t{1}}});
  });
}

// Gives the gradient of copies: each input was copied to a block of outputs.
void GiveBlockSums(Call& call, Expr grad, const std::vector<Resizing>& dims) {
  const auto copies = [&](size_t i) { return dims[i].output / dims[i].input; };
  if (dims.size() == 2) return Give(call, BlockSums(grad, copies(0), copies(1)));
  Expr sum = grad;
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    Dims apart = sum.sizes();
    apart[dim] = dims[i].input;
    apart.insert(apart.begin() + dim + 1, copies(i));
    sum = Sum(Reshape(sum, apart), {dim + 1}, false);
  }
  Give(call, sum);
}

// Returns the weights by which outputs read inputs, [outputs, inputs].
Expr WeightsOf(Call& call, const Resizing& dim, Interpolation mode) {
  const Expr input = Positions(call, dim.input, DType::kF32);
  const auto column = [&](Expr x) { return Reshape(x, {dim.output, 1}); };
  if (mode == Interpolation::kNearest || mode == Interpolation::kNearestExact) {
    return Cast(column(NearestInputs(call, dim, mode)) == input, DType::kF32);
  }
  const Expr source = column(SourcePlaces(call, dim));
  if (mode == Interpolation::kLinear) {
    return Max(1.0 - Abs(Min(Max(source, 0), dim.last()) - input), 0);
  }
  const Expr below = Apply(OpKind::kFloor, source);
  Expr sum;
  for (const double tap : kCubicTaps) {
    const Expr at = below + tap;
    const Expr inside = Min(Max(at, 0), dim.last());
    const Expr term = Where(inside == input, CubicWeight(source - at), 0.0);
    sum = sum.value == nullptr ? term : sum + term;
  }
  return sum;
}

// (grad, output_size, input_size, ..., factors)
void ResizeBackward(Call& call, Interpolation mode) {
  // The weights of a dimension are a whole table, and that of a long signal would fill the memory.
  constexpr int64_t kMostWeights = int64_t{1} << 24;
  const Expr grad = In(call, kGrad);
  const std::vector<Resizing> dims =
      ReadResizing(call, mode, call.Ints("input_size"), grad.sizes(), true);
  if (call.refused()) return;
  if (call.type().elements() == 0 || grad.value->type.elements() == 0) {
    return call.Return(call.b.Full(0, call.dtype(), call.type().sizes));
  }
  const bool is_nearest = mode == Interpolation::kNearest || mode == Interpolation::kNearestExact;
  if (is_nearest && std::ranges::all_of(dims, &Resizing::Copies)) {
    return GiveBlockSums(call, grad, dims);
  }
  std::vector<Expr> weights;
  for (const Resizing& dim : dims) {
    if (dim.output > kMostWeights / dim.input) {
      return call.Refuse("gradient of a resize from ", dim.input, " to ", dim.output, " places");
    }
    weights.push_back(WeightsOf(call, dim, mode));
  }
  GiveTransposed(call, grad, weights);
}
void NearestBackward(Call& call) { ResizeBackward(call, Interpolation::kNearest); }
void NearestExactBackward(Call& call) { ResizeBackward(call, Interpolation::kNearestExact); }
void LinearBackward(Call& call) { ResizeBackward(call, Interpolation::kLinear); }
void CubicBackward(Call& call) { ResizeBackward(call, Interpolation::kCubic); }

constexpr HandlerRow kResizeRows[] = {
    {"aten._upsample_nearest_exact1d.default", NearestExact},
    {"aten._upsample_nearest_exact1d.vec", NearestExact},
    {"aten._upsample_nearest_exact1d_backward.default", NearestExactBackward},
    {"aten._upsample_nearest_exact2d.default", NearestExact},
    {"aten._upsample_nearest_exact2d.vec", NearestExact},
    {"aten._upsample_nearest_exact2d_backward.default", NearestExactBackward},
    {"aten._upsample_nearest_exact3d.default", NearestExact},
    {"aten._upsample_nearest_exact3d.vec", NearestExact},
    {"aten._upsample_nearest_exact3d_backward.default", NearestExactBackward},
    {"aten.upsample_bicubic2d.default", Cubic},
    {"aten.upsample_bicubic2d.vec", Cubic},
    {"aten.upsample_bicubic2d_backward.default", CubicBackward},
    {"aten.upsample_bilinear2d.default", Linear},
    {"aten.upsample_bilinear2d.vec", Linear},
    {"aten.upsample_bilinear2d_backward.default", LinearBackward},
    {"aten.upsample_linear1d.default", Linear},
    {"aten.upsample_linear1d.vec", Linear},
    {"aten.upsample_linear1d_backward.default", LinearBackward},
    {"aten.upsample_nearest1d.default", Nearest},
    {"aten.upsample_nearest1d.vec", Nearest},
    {"aten.upsample_nearest1d_backward.default", NearestBackward},
    {"aten.upsample_nearest2d.default", Nearest},
    {"aten.upsample_nearest2d.vec", Nearest},
    {"aten.upsample_nearest2d_backward.default", NearestBackward},
    {"aten.upsample_nearest3d.default", Nearest},
    {"aten.upsample_nearest3d.vec", Nearest},
    {"aten.upsample_nearest3d_backward.default", NearestBackward},
    {"aten.upsample_trilinear3d.default", Linear},
    {"aten.upsample_trilinear3d.vec", Linear},
    {"aten.upsample_trilinear3d_backward.default", LinearBackward},
};

}  // namespace

std::span<const HandlerRow> ResizeRows() { return kResizeRows; }

}  // namespace hpu::compiler
