// Resizing of images becomes loads at computed positions.
#include <cmath>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

absl::StatusOr<std::vector<Sizes>> InferResize(const ShapeContext& context) {
  if (!context.HasInput(0) || context.Input(0).size() < 3) {
    return InvalidArgument("resize needs an input of rank 3 or more");
  }
  ns_ResizeKernel_Params params{};
  if (!ReadParams(context.node, &params)) return InvalidArgument("params are missing");
  if (context.Output(0).sizes_known) return std::vector<Sizes>(1);
  Sizes out = context.Input(0);
  const int32_t sizes[] = {params.size1, params.size2, params.size3};
  const float scales[] = {params.scaleDim1, params.scaleDim2, params.scaleDim3};
  for (size_t i = 0; i + 2 < out.size() && i < 3; ++i) {
    if (params.useScales != 0) {
      out[i] = static_cast<uint64_t>(std::floor(static_cast<double>(out[i]) * scales[i]));
    } else if (sizes[i] > 0) {
      out[i] = static_cast<uint64_t>(sizes[i]);
    }
  }
  return std::vector<Sizes>{out};
}

class Resizer {
 public:
  Resizer(BodyBuilder& body, const ns_ResizeKernel_Params& params, const View& x, const Shape& out)
      : body_(body), params_(params), x_(x), out_(out) {}

  // Returns the source coordinate of an output index along a dimension.
  E Coordinate(size_t dim) {
    Shape along(out_.size(), 0);
    along[dim] = 1;
    const E index = Cast(body_.Load(Importer::Iota(along)), kF32);
    const auto in = static_cast<double>(x_.shape[dim]);
    const auto out = static_cast<double>(out_[dim]);
    const float scales[] = {params_.scaleDim1, params_.scaleDim2, params_.scaleDim3};
    const size_t fcd = out_.size() - 1 - dim;
    const bool by_scale = params_.useScales != 0 && fcd < 3 && scales[fcd] > 0;
    const double ratio = by_scale ? 1.0 / scales[fcd] : in / out;
    switch (params_.coordTransMode) {
      case NS_RESIZE_COORD_ALIGN_CORNERS:
        return index * (out > 1 ? (in - 1) / (out - 1) : 0.0);
      case NS_RESIZE_COORD_ASYMMETRIC:
        return index * ratio;
      case NS_RESIZE_COORD_PYTORCH_HALF_PIXEL:
        if (out <= 1) return index * 0.0;
        [[fallthrough]];
      default:
        return (index + 0.5) * ratio - 0.5;
    }
  }

  E Nearest(size_t dim) {
    const E at = Coordinate(dim);
    switch (params_.nearestMode) {
      case NS_RESIZE_NEAREST_CEIL:
        return Position(Unary(Opcode::kCeil, at), dim);
      case NS_RESIZE_NEAREST_FLOOR:
        return Position(Unary(Opcode::kFloor, at), dim);
      case NS_RESIZE_NEAREST_ROUND_PREFER_FLOOR:
        return Position(Unary(Opcode::kCeil, at - 0.5), dim);
      default:
        // nearest-exact takes the pixel whose area holds the centre of the output pixel.
        if (params_.coordTransMode == NS_RESIZE_COORD_ASYMMETRIC) {
          const double half =
              0.5 * static_cast<double>(x_.shape[dim]) / static_cast<double>(out_[dim]);
          return Position(Unary(Opcode::kFloor, at + half), dim);
        }
        return Position(Unary(Opcode::kFloor, at + 0.5), dim);
    }
  }

  // Returns the element offset of a coordinate, limited to the image.
  E Position(E coordinate, size_t dim) {
    const E index = Cast(coordinate, ScalarType::kI64);
    const auto last = static_cast<double>(x_.shape[dim] - 1);
    return Min(Max(index, ConstLike(index, 0)), ConstLike(index, last)) *
           static_cast<double>(x_.strides[dim]);
  }

  E Load(E position) {
    Access access{x_.value, x_.type, x_.strides, x_.offset};
    int64_t limit = 1;
    for (size_t d = 2; d < out_.size(); ++d) {
      access.strides[d] = 0;
      limit += (x_.shape[d] - 1) * x_.strides[d];
    }
    return body_.LoadIndirect(access, position, 1, limit);
  }

  // Interpolates linearly over dimension d and those after it, at the given base position.
  E Linear(size_t d, E base) {
    if (d == out_.size()) return Cast(Load(base), kF32);
    E at = Coordinate(d);
    at = Max(at, ConstLike(at, 0));
    const E low = Unary(Opcode::kFloor, at);
    const E fraction = at - low;
    const E first = Linear(d + 1, base + Position(low, d));
    const E second = Linear(d + 1, base + Position(low + 1.0, d));
    return first * (1.0 - fraction) + second * fraction;
  }

 private:
  BodyBuilder& body_;
  const ns_ResizeKernel_Params& params_;
  const View& x_;
  const Shape& out_;
};

absl::Status ImportResize(Importer& im) {
  ns_ResizeKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  if (params.mode != NS_RESIZE_NEAREST && params.mode != NS_RESIZE_LINEAR) {
    return Unimplemented("resize with interpolation mode ", params.mode);
  }
  const View x = im.Input(0);
  const Shape shape = im.OutputShape(0);
  im.MapTo(im.OutputValue(0, &x.strides), {}, [&](BodyBuilder& body, const Args&) {
    Resizer resizer(body, params, x, shape);
    const E zero = body.ConstInt(ScalarType::kI64, 0);
    if (params.mode == NS_RESIZE_LINEAR) return resizer.Linear(2, zero);
    E position = zero;
    for (size_t d = 2; d < shape.size(); ++d) position = position + resizer.Nearest(d);
    return resizer.Load(position);
  });
  return absl::OkStatus();
}

const GuidRow kResizeRows[] = {
    {"resize_fwd", InferResize, ImportResize},
};

}  // namespace

std::span<const GuidRow> ResizeRows() { return kResizeRows; }

}  // namespace hpu::graph_compiler
