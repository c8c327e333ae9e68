// Rewrites grid_sample on images, and its gradients. A pixel is a row of all its channels, and is
// read and added to as a whole.
#include <array>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"

namespace hpu::compiler {
namespace {

constexpr int64_t kNearest = 1;  // at::native::GridSamplerInterpolation
constexpr int64_t kBorder = 1;   // at::native::GridSamplerPadding

// The places among the pixels of a line for coordinates from -1 to 1, and how far a place moves
// when its coordinate grows by 1.
struct Line {
  Expr place;  // [points]
  Expr slope;
  double last = 0;
};

struct Pixel {
  Expr row;    // the pixel's row among the pixels of all images
  Expr there;  // whether the pixel lies in its image
};

// A pixel next to a point, and the pixel's shares of the result along x and y.
struct Corner {
  Pixel pixel;
  Expr share_x, share_y;
  bool right = false, below = false;
};

struct Sampling {
  int64_t count = 0, channels = 0, height = 0, width = 0, points = 0;
  Line x, y;
  Expr first;  // for each point, the row of its image's first pixel
  bool nearest = false;
};

Line ReadLine(Expr coordinate, int64_t size, bool border, bool align_corners) {
  const auto last = static_cast<double>(size - 1);
  const double slope = (align_corners ? last : static_cast<double>(size)) / 2;
  Line line{(coordinate + 1.0) * slope - (align_corners ? 0.0 : 0.5), Number(coordinate, slope),
            last};
  if (border) {
    const Expr inside = (line.place > 0.0) & (line.place < last);
    line.slope = Where(inside, line.slope, 0.0);
    line.place = Min(Max(line.place, 0), last);
  }
  return line;
}

Sampling ReadSampling(Call& call) {
  Sampling at;
  const Dims& image = call.Tensor("input")->type.sizes;
  const Expr grid{&call, call.Tensor("grid")};
  const int64_t mode = call.Int("interpolation_mode");
  const int64_t padding = call.Int("padding_mode");
  if (call.refused() || mode > kNearest || padding > kBorder || image.size() != 4 ||
      grid.rank() != 4 || call.Tensor("input")->type.dtype != DType::kF32 ||
      grid.dtype() != DType::kF32 || NumElements(image) == 0 || NumElements(image) > INT32_MAX) {
    call.Refuse("sampling of ", ir::ToText(image));
    return at;
  }
  at.nearest = mode == kNearest;
  at.count = image[0];
  at.channels = image[1];
  at.height = image[2];
  at.width = image[3];
  at.points = at.count * grid.sizes()[1] * grid.sizes()[2];
  const auto line = [&](int64_t i, int64_t size) {
    const Expr coordinate = Reshape(Slice(grid, 3, i, i + 1), {at.points});
    return ReadLine(coordinate, size, padding == kBorder, call.Bool("align_corners"));
  };
  at.x = line(0, at.width);
  at.y = line(1, at.height);
  const auto plane = static_cast<double>(at.height * at.width);
  const Expr images{&call, call.b.Iota(0, plane, DType::kI32, at.count)};
  at.first = Reshape(Expand(Reshape(images, {at.count, 1}), {at.count, at.points / at.count}),
                     {at.points});
  return at;
}

// The row is counted in integers, because f32 does not hold every pixel number above 2 ** 24.
Pixel PixelAt(const Sampling& at, Expr column, Expr row) {
  const Expr there = (column >= 0.0) & (column <= at.x.last) & (row >= 0.0) & (row <= at.y.last);
  // A coordinate that is NaN reads a pixel, too.
  const auto whole = [&](Expr x) { return Cast(Where(there, x, 0.0), DType::kI32); };
  return {whole(row) * static_cast<double>(at.width) + whole(column) + at.first, there};
}

Pixel NearestPixel(const Sampling& at) {
  return PixelAt(at, Apply(OpKind::kRound, at.x.place), Apply(OpKind::kRound, at.y.place));
}

std::array<Corner, 4> Corners(const Sampling& at) {
  const Expr left = Apply(OpKind::kFloor, at.x.place);
  const Expr top = Apply(OpKind::kFloor, at.y.place);
  const Expr along_x = at.x.place - left;
  const Expr along_y = at.y.place - top;
  std::array<Corner, 4> corners;
  for (size_t i = 0; i < corners.size(); ++i) {
    Corner& corner = corners[i];
    corner.right = i >= 2;
    corner.below = i % 2 == 1;
    corner.pixel = PixelAt(at, left + (corner.right ? 1.0 : 0.0), top + (corner.below ? 1.0 : 0.0));
    corner.share_x = corner.right ? along_x : 1.0 - along_x;
    corner.share_y = corner.below ? along_y : 1.0 - along_y;
  }
  return corners;
}

// Returns one value per point with a second dimension of size 1, so that it broadcasts over the
// point's row.
Expr OfRow(Expr x) { return Reshape(x, {x.sizes()[0], 1}); }

// Returns 0 for pixels outside of the image. Their rows may hold inf or NaN, so a multiplication by
// 0 would not do.
Expr InImage(const Pixel& pixel, Expr rows) { return Where(OfRow(pixel.there), rows, 0.0); }

Expr Read(Expr rows, const Pixel& pixel) {
  return {rows.call, rows.call->b.Gather(rows.value, pixel.row.value, 0)};
}

Expr AsRows(Expr images, int64_t channels) {
  const Expr last{images.call, images.call->b.Permute(images.value, {0, 2, 3, 1})};
  return Reshape(last, {NumElements(last.sizes()) / channels, channels});
}

Value* AsImages(Expr rows, const Dims& sizes) {
  const Expr last = Reshape(rows, {sizes[0], sizes[2], sizes[3], sizes[1]});
  return rows.call->b.Permute(last.value, {0, 3, 1, 2});
}

Expr Added(Expr sum, Expr x) { return sum.value == nullptr ? x : sum + x; }

// grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)
void GridSample(Call& call) {
  const Sampling at = ReadSampling(call);
  if (call.refused()) return;
  const Expr rows = AsRows({&call, call.Tensor("input")}, at.channels);
  Expr read;
  if (at.nearest) {
    const Pixel pixel = NearestPixel(at);
    read = InImage(pixel, Read(rows, pixel));
  } else {
    for (const Corner& corner : Corners(at)) {
      const Expr share = OfRow(corner.share_x * corner.share_y);
      read = Added(read, InImage(corner.pixel, Read(rows, corner.pixel) * share));
    }
  }
  if (!call.refused()) call.Return(AsImages(read, call.type().sizes));
}

// grid_sampler_2d_backward(grad, input, grid, interpolation_mode, padding_mode, align_corners,
// output_mask): the grid's gradient is returned whether or not output_mask asks for it.
void GridSampleBackward(Call& call) {
  const Sampling at = ReadSampling(call);
  const std::vector<bool> wanted = call.Bools("output_mask");
  if (call.refused() || wanted.size() != 2) return call.Refuse("no mask of two results");
  const Expr input{&call, call.Tensor("input")};
  const Expr rows = AsRows(input, at.channels);
  const Expr gradient = AsRows({&call, call.Tensor("grad_output")}, at.channels);
  Expr sum{&call, call.b.Full(0, DType::kF32, rows.sizes())};
  const auto add = [&](const Pixel& pixel, Expr x) {
    sum.value = AddRows(call, sum.value, 0, pixel.row.value, InImage(pixel, x).value);
  };
  Expr moved_x{&call, call.b.Full(0, DType::kF32, {at.points})};
  Expr moved_y = moved_x;
  if (at.nearest) {
    if (wanted[0]) add(NearestPixel(at), gradient);
  } else {
    for (const Corner& corner : Corners(at)) {
      if (wanted[0]) add(corner.pixel, gradient * OfRow(corner.share_x * corner.share_y));
      if (!wanted[1]) continue;
      const Expr value =
          Sum(InImage(corner.pixel, Read(rows, corner.pixel) * gradient), {1}, false);
      moved_x = moved_x + (corner.right ? value : -value) * corner.share_y;
      moved_y = moved_y + (corner.below ? value : -value) * corner.share_x;
    }
  }
  if (call.refused()) return;
  const Expr moved{
      &call,
      call.b.Concat({OfRow(moved_x * at.x.slope).value, OfRow(moved_y * at.y.slope).value}, 1)};
  call.Return({wanted[0] ? AsImages(sum, input.sizes()) : nullptr,
               Reshape(moved, call.Tensor("grid")->type.sizes).value});
}

constexpr HandlerRow kGridSampleRows[] = {
    {"aten.grid_sampler_2d.default", GridSample},
    {"aten.grid_sampler_2d_backward.default", GridSampleBackward},
};

}  // namespace

std::span<const HandlerRow> GridSampleRows() { return kGridSampleRows; }

}  // namespace hpu::compiler
