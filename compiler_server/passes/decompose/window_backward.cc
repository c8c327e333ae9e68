// Rewrites the gradients of average pooling and resizing. Averages and interpolations are linear
// along each dimension. Their gradients multiply by the transposed weights, which are calculated
// from positions, or spread evenly where windows do not overlap.
#include <algorithm>

#include "compiler_server/passes/decompose/pooling.h"

namespace hpu::compiler {
namespace {

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

// Gives the last two dimensions of `grad` multiplied by the transposes of the weights, which are
// [outputs, inputs] for each dimension. The result has the call's declared sizes.
void GiveBack(Call& call, Expr grad, Expr rows, Expr columns) {
  Value* wide = call.b.Matmul(grad.value, columns.value);
  Dims flat = {NumElements(std::span(wide->type.sizes).first(wide->type.sizes.size() - 2)),
               wide->type.sizes[grad.rank() - 2], wide->type.sizes.back()};
  Value* y = call.b.Matmul(rows.value, call.b.Reshape(wide, flat), true);
  if (call.refused()) return;
  Give(call, {&call, call.b.Reshape(y, call.type().sizes)});
}

// avg_pool2d_backward(grad, x, kernel, stride, padding, ceil_mode, count_include_pad,
// divisor_override)
void AvgPoolBackward(Call& call) {
  Expr grad = In(call, kGrad);
  const Dims sizes = call.Tensor(kSelf)->type.sizes;
  if (sizes.size() < 3 || grad.value->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(sizes));
  }
  const Dims kernel = call.Ints("kernel_size");
  Dims stride = call.Ints("stride");
  if (stride.empty()) stride = kernel;
  const Dims padding = call.Ints("padding");
  const auto along = [&](size_t i) {
    const auto entry = [&](const Dims& values) {
      return values.size() == 1 ? values[0] : values[i];
    };
    const size_t dim = sizes.size() - 2 + i;
    return PoolingAlong{sizes[dim], grad.sizes()[dim], entry(kernel), entry(stride),
                        entry(padding)};
  };
  const PoolingAlong rows = along(0);
  const PoolingAlong columns = along(1);
  if (call.Has("divisor_override")) {
    grad = grad * (1 / static_cast<double>(call.Int("divisor_override")));
  } else if (rows.Plain() && columns.Plain()) {
    grad = grad * (1 / static_cast<double>(rows.kernel * columns.kernel));
  } else {
    const bool padded = call.Bool("count_include_pad");
    const Expr height = Reshape(WindowSizes(call, rows, padded), {rows.output, 1});
    grad = grad / (height * WindowSizes(call, columns, padded));
  }
  if (rows.Tiles() && columns.Tiles()) {
    const Expr y = RepeatedInPlane(grad, rows.kernel, columns.kernel);
    Dims high(sizes.size(), 0);
    for (size_t i = 0; i < sizes.size(); ++i) high[i] = sizes[i] - y.sizes()[i];
    const bool whole = y.sizes() == sizes;
    return Give(call, whole ? y : Expr{&call, call.b.Pad(y.value, Dims(high.size(), 0), high, 0)});
  }
  GiveBack(call, grad, Coverage(call, rows), Coverage(call, columns));
}

// _adaptive_avg_pool2d_backward(grad, x)
void AdaptiveAvgPoolBackward(Call& call) {
  const Expr grad = In(call, kGrad);
  const Dims sizes = call.Tensor(kSelf)->type.sizes;
  const size_t rank = sizes.size();
  if (rank < 3 || grad.value->type.elements() == 0) {
    return call.Refuse("gradient of pooling of ", ir::ToText(sizes));
  }
  const int64_t rows = grad.sizes()[rank - 2];
  const int64_t columns = grad.sizes()[rank - 1];
  const int64_t height = sizes[rank - 2];
  const int64_t width = sizes[rank - 1];
  if (height % rows == 0 && width % columns == 0) {
    const auto count = static_cast<double>(height / rows * (width / columns));
    return Give(call, RepeatedInPlane(grad * (1 / count), height / rows, width / columns));
  }
  GiveBack(call, grad, AdaptiveWeights(call, height, rows), AdaptiveWeights(call, width, columns));
}

// Returns the number of input positions per output position. It is calculated from the scale factor
// if one is given, and from the sizes otherwise.
double StepOf(Call& call, std::string_view scale, int64_t inputs, int64_t outputs) {
  const double given = call.Float(scale, 0);
  return given > 0 ? 1 / given : static_cast<double>(inputs) / static_cast<double>(outputs);
}

struct Resizing {
  int64_t input, output;
  double step;
};
std::vector<Resizing> ReadResizing(Call& call) {
  const Dims input = call.Ints("input_size");
  const Dims output = call.Ints("output_size");
  if (input.size() != 4 || output.size() != 2) {
    call.Refuse("resizing of ", ir::ToText(input));
    return {};
  }
  return {{input[2], output[0], StepOf(call, "scales_h", input[2], output[0])},
          {input[3], output[1], StepOf(call, "scales_w", input[3], output[1])}};
}

// upsample_nearest2d_backward(grad, output_size, input_size, scales_h, scales_w)
void NearestBackward(Call& call, double shift) {
  const std::vector<Resizing> dims = ReadResizing(call);
  if (call.refused()) return;
  const Expr grad = In(call, kGrad);
  const auto whole = [](const Resizing& dim) {
    return dim.output % dim.input == 0 &&
           dim.step * static_cast<double>(dim.output) == static_cast<double>(dim.input);
  };
  if (whole(dims[0]) && whole(dims[1])) {  // every input was copied into a block
    return Give(call,
                BlockSums(grad, dims[0].output / dims[0].input, dims[1].output / dims[1].input));
  }
  const auto weights = [&](const Resizing& dim) {
    const Expr output = Reshape(Positions(call, dim.output, DType::kF32), {dim.output, 1});
    const Expr source = Apply(OpKind::kFloor, (output + shift) * dim.step);
    const Expr nearest = Min(source, static_cast<double>(dim.input - 1));
    return Cast(nearest == Positions(call, dim.input, DType::kF32), DType::kF32);
  };
  GiveBack(call, grad, weights(dims[0]), weights(dims[1]));
}
void UpsampleNearestBackward(Call& call) { NearestBackward(call, 0); }
void UpsampleNearestExactBackward(Call& call) { NearestBackward(call, 0.5); }

// upsample_bilinear2d_backward(grad, output_size, input_size, align_corners, scales_h, scales_w)
void BilinearBackward(Call& call) {
  const std::vector<Resizing> dims = ReadResizing(call);
  const bool align = call.Bool("align_corners");
  if (call.refused()) return;
  const auto weights = [&](const Resizing& dim) {
    const Expr output = Reshape(Positions(call, dim.output, DType::kF32), {dim.output, 1});
    const double between =
        dim.output > 1 ? static_cast<double>(dim.input - 1) / static_cast<double>(dim.output - 1)
                       : 0;
    const Expr source = align ? output * between : Max((output + 0.5) * dim.step - 0.5, 0);
    const Expr inside = Min(source, static_cast<double>(dim.input - 1));
    return Max(1.0 - Abs(inside - Positions(call, dim.input, DType::kF32)), 0);
  };
  GiveBack(call, In(call, kGrad), weights(dims[0]), weights(dims[1]));
}

constexpr HandlerRow kWindowBackwardRows[] = {
    {"aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward},
    {"aten._upsample_nearest_exact2d_backward.default", UpsampleNearestExactBackward},
    {"aten.avg_pool2d_backward.default", AvgPoolBackward},
    {"aten.upsample_bilinear2d_backward.default", BilinearBackward},
    {"aten.upsample_nearest2d_backward.default", UpsampleNearestBackward},
};

}  // namespace

std::span<const HandlerRow> WindowBackwardRows() { return kWindowBackwardRows; }

}  // namespace hpu::compiler
