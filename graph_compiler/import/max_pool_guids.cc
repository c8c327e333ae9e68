// Pooling by the maximum, and its gradient.
#include <limits>

#include "graph_compiler/import/pooling_windows.h"

namespace hpu::graph_compiler {
namespace {

// An image for windows that are looked up. Its neighbours in memory are channels, because they
// share their windows. An image with another order is copied, unless it has too few channels to
// fill vectors.
struct Image {
  View view;
  bool copied = false;
};

constexpr int64_t kFewestChannels = 8;

View InChannelsLastOrder(Importer& im, MemoryType type, const Shape& shape) {
  const Shape order = {shape[2] * shape[3] * shape[1], 1, shape[3] * shape[1], shape[1]};
  return im.NewValue(type, shape, &order);
}

Image ImageOf(Importer& im, size_t input) {
  const View view = im.Input(input);
  const bool apart = view.strides[1] != 1 && view.shape[2] * view.shape[3] > 1;
  if (!apart || view.shape[1] < kFewestChannels) return {view, false};
  const View copy = InChannelsLastOrder(im, view.type, view.shape);
  im.MapTo(copy, {view}, FirstArg);
  return {copy, true};
}

// Returns where output i, windows over `image`, is computed. It is bound afterwards if that is not
// the output's own place.
View ResultOf(Importer& im, size_t output, const Image& image) {
  if (!image.copied) return im.OutputValue(output, &image.view.strides);
  return InChannelsLastOrder(im, im.OutputType(output), im.OutputShape(output));
}
void FinishResult(Importer& im, size_t output, const Image& image, const View& result) {
  if (image.copied) im.Bind(output, result);
}

double LowestOf(MemoryType type) {
  if (ComputeType(type) == kF32) return -std::numeric_limits<double>::infinity();
  return static_cast<double>(std::numeric_limits<int32_t>::min());
}

absl::Status ImportMaxPool(Importer& im) {
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(im));
  const Image image = ImageOf(im, 0);
  const View& x = image.view;
  const double lowest = LowestOf(x.type);
  const View maximum = ResultOf(im, 0, image);
  ReduceWindows(im, x, maximum, ReduceKind::kMax, pool.h, pool.w,
                [&](WindowBody& window, BodyBuilder&) { return window.Element(lowest); });
  FinishResult(im, 0, image, maximum);
  if (!im.HasOutput(1)) return absl::OkStatus();
  // Finds the first position of the maximum, as the flat index h * W + w.
  View wide = maximum;
  wide.strides.insert(wide.strides.end(), {0, 0});
  const View place = ResultOf(im, 1, image);
  ReduceWindows(
      im, x, place, ReduceKind::kMin, pool.h, pool.w, [&](WindowBody& window, BodyBuilder& body) {
        const E element = window.Element(lowest);
        const E found = body.Load(Access{wide.value, wide.type, wide.strides, wide.offset});
        const E flat = window.Row() * static_cast<double>(pool.w.in) + window.Column();
        E hit = EqualTo(element, found);
        if (element.type() == kF32) {
          hit = Or(hit, body.Op(Opcode::kIsNan, ScalarType::kBool, {element}));
        }
        const E none = body.ConstInt(ScalarType::kI32, std::numeric_limits<int32_t>::max());
        // Padding compares equal to an image of -inf, but it must never be the position.
        if (window.Leaves()) hit = And(hit, window.Inside());
        return Select(hit, Cast(flat, ScalarType::kI32), none);
      });
  FinishResult(im, 1, image, place);
  return absl::OkStatus();
}

constexpr int64_t kMostUnrolledWindows = 9;

// The number of windows along a dimension that an element of the image may lie in.
int64_t WindowsAround(const PoolWindow& w) { return (w.kernel - 1) * w.dilation / w.stride + 1; }

// Gives an element of the image the gradients of the windows around it whose maximum it was.
class MaximumBody {
 public:
  MaximumBody(BodyBuilder& body, size_t rank, const Pool& pool, const View& gradient,
              const View& index)
      : body_(body),
        rank_(rank),
        pool_(pool),
        gradient_(gradient),
        index_(index),
        here_(Along(2, 0) * static_cast<double>(pool.w.in) + Along(3, 0)) {}

  // Returns the place along a dimension of the domain, plus `add`.
  E Along(size_t dim, int64_t add) {
    Shape strides(rank_, 0);
    strides[dim] = 1;
    return body_.Load(Importer::Iota(strides, add));
  }

  // Returns the gradient of the window that lies so many places before the last one that may hold
  // the element, or 0 if its maximum is another element.
  E Given(E row_back, E column_back) {
    const E row = WindowAt(pool_.h, 2, row_back);
    const E column = WindowAt(pool_.w, 3, column_back);
    const E exists = And(Within(row, pool_.h.out), Within(column, pool_.w.out));
    const E chosen = And(exists, EqualTo(Cast(Load(index_, row, column), ScalarType::kI64), here_));
    return Select(chosen, Cast(Load(gradient_, row, column), kF32), body_.Const(kF32, 0));
  }

 private:
  E WindowAt(const PoolWindow& w, size_t dim, E back) {
    const E last = Binary(Opcode::kFloorDiv, Along(dim, w.pad_begin),
                          body_.ConstInt(ScalarType::kI64, w.stride));
    return last - back;
  }

  E Load(const View& view, E row, E column) {
    Access access{view.value, view.type, Shape(rank_, 0), view.offset};
    access.strides[0] = view.strides[0];
    access.strides[1] = view.strides[1];
    const E position =
        row * static_cast<double>(view.strides[2]) + column * static_cast<double>(view.strides[3]);
    const int64_t limit =
        (pool_.h.out - 1) * view.strides[2] + (pool_.w.out - 1) * view.strides[3] + 1;
    return body_.LoadIndirect(access, position, 1, limit);
  }

  BodyBuilder& body_;
  const size_t rank_;
  const Pool& pool_;
  const View& gradient_;
  const View& index_;
  const E here_;  // the element's flat position
};

// Computes the gradient of x from the inputs gradient, x and flat positions of maxima. x gives
// sizes only.
absl::Status ImportMaxPoolGradient(Importer& im) {
  ASSIGN_OR_RETURN(Pool pool, ReadPool(im.node()));
  const Image image = ImageOf(im, 0);
  const View& gradient = image.view;
  const View index = ImageOf(im, 2).view;
  const View out = ResultOf(im, 0, image);
  for (const auto& [window, dim] : {std::pair(&pool.h, size_t{2}), std::pair(&pool.w, size_t{3})}) {
    window->in = out.shape[dim];
    window->out = gradient.shape[dim];
  }
  const int64_t rows = WindowsAround(pool.h);
  const int64_t columns = WindowsAround(pool.w);
  const bool unrolled = rows * columns <= kMostUnrolledWindows;
  Node node;
  node.domain = out.shape;
  if (!unrolled) node.domain.insert(node.domain.end(), {rows, columns});
  const size_t rank = node.domain.size();
  BodyBuilder body;
  MaximumBody maxima(body, rank, pool, gradient, index);
  Access access{out.value, out.type, out.strides, out.offset};
  access.strides.resize(rank, 0);
  if (unrolled) {
    E sum = body.Const(kF32, 0);
    for (int64_t i = 0; i < rows * columns; ++i) {
      sum = sum + maxima.Given(body.ConstInt(ScalarType::kI64, i / columns),
                               body.ConstInt(ScalarType::kI64, i % columns));
    }
    body.Store(sum, access);
    node.kind = Loop{};
  } else {
    body.Store(maxima.Given(maxima.Along(4, 0), maxima.Along(5, 0)), access);
    node.kind = Loop{.reduced = 2, .reduce = ReduceKind::kSum};
  }
  node.body = body.Take();
  node.keep_apart = image.copied;  // the following copy would look up windows in its own order
  im.AddNode(std::move(node));
  FinishResult(im, 0, image, out);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferMaxPoolGradient(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 3));
  ASSIGN_OR_RETURN(const Sizes pooled, PooledSizes(context, 1));
  const Sizes& x = context.Input(1);
  for (const size_t input : {0, 2}) {
    if (context.Input(input) != pooled) {
      return InvalidArgument("input ", input, " of sizes ", SizesText(context.Input(input)),
                             " is not what pooling of ", SizesText(x), " gives");
    }
  }
  return std::vector<Sizes>{x};
}

const GuidRow kMaxPoolRows[] = {
    {"pt_maxpool_2d_fwd", InferPool, ImportMaxPool, true},
    {"pt_maxpool_2d_bwd", InferMaxPoolGradient, ImportMaxPoolGradient, true},
};

}  // namespace

std::span<const GuidRow> MaxPoolRows() { return kMaxPoolRows; }

}  // namespace hpu::graph_compiler
