// Pooling becomes reductions over windows. Images have the shape (n, c, h, w); their order in
// memory may be any.
#include <algorithm>
#include <limits>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

// One spatial dimension of a pooling window.
struct PoolWindow {
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  // Returns whether some window reaches outside the image.
  bool Leaves() const {
    return pad_begin > 0 || (out - 1) * stride - pad_begin + (kernel - 1) * dilation >= in;
  }
};

int64_t PooledSize(int64_t in, const PoolWindow& w, int32_t convention) {
  const int64_t span = in + w.pad_begin + w.pad_end - w.dilation * (w.kernel - 1) - 1;
  if (convention == NS_POOLING_SAME) return (in + w.stride - 1) / w.stride;
  if (span < 0) return 0;
  if (convention == NS_POOLING_VALID) return span / w.stride + 1;
  int64_t size = (span + w.stride - 1) / w.stride + 1;
  // In PyTorch's ceil mode the last window starts inside the image or its left padding.
  if (convention == NS_POOLING_FULL_PYTORCH && (size - 1) * w.stride >= in + w.pad_begin) --size;
  return size;
}

struct Pool {
  PoolWindow h, w;
  int32_t convention = 0;
};

absl::StatusOr<Pool> ReadPool(const NodeDesc& node) {
  ns_SpatialReduction_Params p{};
  if (!ReadParams(node, &p)) return InvalidArgument("pooling params are missing");
  if (p.kernel_w <= 0 || p.kernel_h <= 0 || p.stride_w <= 0 || p.stride_h <= 0) {
    return InvalidArgument("pooling with kernel or stride 0");
  }
  Pool pool;
  pool.w = {0, 0, p.kernel_w, p.stride_w, std::max(p.dilation_w, 1), p.pad_w_begin, p.pad_w_end};
  pool.h = {0, 0, p.kernel_h, p.stride_h, std::max(p.dilation_h, 1), p.pad_h_begin, p.pad_h_end};
  pool.convention = p.pooling_convention;
  return pool;
}

// Returns the sizes of the windows over input i.
absl::StatusOr<Sizes> PooledSizes(const ShapeContext& context, size_t i) {
  if (!context.HasInput(i) || context.Input(i).size() != 4) {
    return InvalidArgument("pooling needs a 4-D input");
  }
  ASSIGN_OR_RETURN(const Pool pool, ReadPool(context.node));
  Sizes out = context.Input(i);
  out[0] = static_cast<uint64_t>(PooledSize(static_cast<int64_t>(out[0]), pool.w, pool.convention));
  out[1] = static_cast<uint64_t>(PooledSize(static_cast<int64_t>(out[1]), pool.h, pool.convention));
  return out;
}

absl::StatusOr<std::vector<Sizes>> InferPool(const ShapeContext& context) {
  ASSIGN_OR_RETURN(const Sizes out, PooledSizes(context, 0));
  return std::vector<Sizes>(context.node.outputs.size(), out);
}

absl::StatusOr<Pool> PoolOf(Importer& im) {
  ASSIGN_OR_RETURN(Pool pool, ReadPool(im.node()));
  const Shape out = im.OutputShape(0);
  pool.h.in = im.Input(0).shape[2];
  pool.w.in = im.Input(0).shape[3];
  pool.h.out = out[2];
  pool.w.out = out[3];
  return pool;
}

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

// The rank of the domain of a window reduction: (n, c, ho, wo, kh, kw).
constexpr size_t kRank = 6;

Shape Along(size_t dim, int64_t step, size_t dim2, int64_t step2) {
  Shape strides(kRank, 0);
  strides[dim] = step;
  strides[dim2] = step2;
  return strides;
}

class WindowBody {
 public:
  WindowBody(BodyBuilder& body, const View& x, const PoolWindow& h, const PoolWindow& w)
      : body_(body), x_(x), h_(h), w_(w) {}

  E Row() { return body_.Load(Importer::Iota(Along(2, h_.stride, 4, h_.dilation), -h_.pad_begin)); }
  E Column() {
    return body_.Load(Importer::Iota(Along(3, w_.stride, 5, w_.dilation), -w_.pad_begin));
  }

  // Returns the window's element, or `outside` beyond the image.
  E Element(double outside) {
    Access access{x_.value, x_.type, {x_.strides[0], x_.strides[1], 0, 0, 0, 0}, x_.offset};
    if (!Leaves()) {
      access.strides = {x_.strides[0],
                        x_.strides[1],
                        x_.strides[2] * h_.stride,
                        x_.strides[3] * w_.stride,
                        x_.strides[2] * h_.dilation,
                        x_.strides[3] * w_.dilation};
      return body_.Load(access);
    }
    const E row = Row();
    const E column = Column();
    const auto clamp = [](E value, int64_t size) {
      return Min(Max(value, ConstLike(value, 0)), ConstLike(value, static_cast<double>(size - 1)));
    };
    const E position = clamp(row, h_.in) * static_cast<double>(x_.strides[2]) +
                       clamp(column, w_.in) * static_cast<double>(x_.strides[3]);
    const int64_t limit = (h_.in - 1) * x_.strides[2] + (w_.in - 1) * x_.strides[3] + 1;
    const E value = body_.LoadIndirect(access, position, 1, limit);
    return Select(Inside(), value, ConstLike(value, outside));
  }

  bool Leaves() const { return h_.Leaves() || w_.Leaves(); }

  // Returns whether the window's element lies in the image.
  E Inside() {
    const auto within = [](E at, int64_t size) {
      return And(at >= ConstLike(at, 0), at < static_cast<double>(size));
    };
    return And(within(Row(), h_.in), within(Column(), w_.in));
  }

 private:
  BodyBuilder& body_;
  const View& x_;
  const PoolWindow& h_;
  const PoolWindow& w_;
};

using WindowFunction = std::function<E(WindowBody&, BodyBuilder&)>;

// Computes out (n, c, ho, wo) = fold of function over (kh, kw).
void ReduceWindows(Importer& im, const View& x, const View& out, ReduceKind kind,
                   const PoolWindow& h, const PoolWindow& w, const WindowFunction& function) {
  View wide = out;
  wide.shape.insert(wide.shape.end(), {1, 1});
  wide.strides.insert(wide.strides.end(), {0, 0});
  const Shape domain = {out.shape[0], out.shape[1], h.out, w.out, h.kernel, w.kernel};
  Node node;
  BodyBuilder body;
  WindowBody windows(body, x, h, w);
  body.Store(function(windows, body), Access{wide.value, wide.type, wide.strides, wide.offset});
  node.domain = domain;
  node.kind = Loop{.reduced = 2, .reduce = kind};
  node.body = body.Take();
  im.AddNode(std::move(node));
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

// Computes the gradient of x from the inputs gradient, x and flat positions of maxima: an element
// sums over the windows around it whose maximum it was. x gives sizes only.
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
  const auto along = [&](size_t dim, int64_t add) {
    Shape strides(rank, 0);
    strides[dim] = 1;
    return body.Load(Importer::Iota(strides, add));
  };
  // Returns the window `back` places before the last one that may hold the element.
  const auto window_at = [&](const PoolWindow& w, size_t dim, E back) {
    const E last = Binary(Opcode::kFloorDiv, along(dim, w.pad_begin),
                          body.ConstInt(ScalarType::kI64, w.stride));
    return last - back;
  };
  const auto within = [](E at, int64_t size) {
    return And(at >= ConstLike(at, 0), at < static_cast<double>(size));
  };
  const E here = along(2, 0) * static_cast<double>(pool.w.in) + along(3, 0);
  const auto given = [&](E row_back, E column_back) {
    const E row = window_at(pool.h, 2, row_back);
    const E column = window_at(pool.w, 3, column_back);
    const auto load = [&](const View& view) {
      Access access{view.value, view.type, Shape(rank, 0), view.offset};
      access.strides[0] = view.strides[0];
      access.strides[1] = view.strides[1];
      const E position = row * static_cast<double>(view.strides[2]) +
                         column * static_cast<double>(view.strides[3]);
      const int64_t limit =
          (pool.h.out - 1) * view.strides[2] + (pool.w.out - 1) * view.strides[3] + 1;
      return body.LoadIndirect(access, position, 1, limit);
    };
    const E exists = And(within(row, pool.h.out), within(column, pool.w.out));
    const E chosen = And(exists, EqualTo(Cast(load(index), ScalarType::kI64), here));
    return Select(chosen, Cast(load(gradient), kF32), body.Const(kF32, 0));
  };
  Access access{out.value, out.type, out.strides, out.offset};
  access.strides.resize(rank, 0);
  if (unrolled) {
    E sum = body.Const(kF32, 0);
    for (int64_t i = 0; i < rows * columns; ++i) {
      sum = sum + given(body.ConstInt(ScalarType::kI64, i / columns),
                        body.ConstInt(ScalarType::kI64, i % columns));
    }
    body.Store(sum, access);
    node.kind = Loop{};
  } else {
    body.Store(given(along(4, 0), along(5, 0)), access);
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

// Returns how many elements of a window along one dimension count for the average, given its output
// index.
E CountAlong(BodyBuilder& body, size_t dim, const PoolWindow& window, bool include_padding) {
  Shape steps(4, 0);
  steps[dim] = window.stride;
  const E start = body.Load(Importer::Iota(steps, -window.pad_begin));
  const double last = static_cast<double>(window.in + (include_padding ? window.pad_end : 0));
  const E end = Min(start + static_cast<double>(window.kernel), ConstLike(start, last));
  return end - (include_padding ? start : Max(start, ConstLike(start, 0)));
}

absl::Status ImportAveragePool(Importer& im) {
  ASSIGN_OR_RETURN(const Pool pool, PoolOf(im));
  ns_AveragePoolingWithDivisorOverride_Params params{};
  if (!ReadParams(im.node(), &params)) {
    ns_AveragePooling_Params old{};
    if (ReadParams(im.node(), &old)) params.includePadding = old.includePadding;
  }
  const View x = im.Input(0);
  const View sum = im.NewValue(MemoryType::kF32, im.OutputShape(0), &x.strides);
  ReduceWindows(im, x, sum, ReduceKind::kSum, pool.h, pool.w,
                [&](WindowBody& window, BodyBuilder&) { return Cast(window.Element(0), kF32); });
  const bool include = params.includePadding != 0;
  const bool constant = params.divisorOverride != 0 || (!pool.h.Leaves() && !pool.w.Leaves());
  im.MapTo(im.OutputValue(0, &x.strides), {sum}, [&](BodyBuilder& body, const Args& a) {
    if (constant) {
      const double divisor = params.divisorOverride != 0
                                 ? params.divisorOverride
                                 : static_cast<double>(pool.h.kernel * pool.w.kernel);
      return a[0] * (1.0 / divisor);
    }
    const E count = CountAlong(body, 2, pool.h, include) * CountAlong(body, 3, pool.w, include);
    return a[0] / Cast(count, kF32);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferAdaptivePool(const ShapeContext& context) {
  ns_AdaptiveAvgPool_Params params{};
  if (!context.HasInput(0) || context.Input(0).size() != 4 || !ReadParams(context.node, &params) ||
      params.outputWidth <= 0 || params.outputHeight <= 0) {
    return InvalidArgument("adaptive pooling needs a 4-D input and output sizes");
  }
  Sizes out = context.Input(0);
  out[0] = static_cast<uint64_t>(params.outputWidth);
  out[1] = static_cast<uint64_t>(params.outputHeight);
  return std::vector<Sizes>{out};
}

// PoolWindow i covers [floor(i * in / out), ceil((i + 1) * in / out)).
absl::Status ImportAdaptivePool(Importer& im) {
  const View x = im.Input(0);
  const Shape shape = im.OutputShape(0);
  const PoolWindow h{x.shape[2], shape[2], x.shape[2] / shape[2], x.shape[2] / shape[2]};
  const PoolWindow w{x.shape[3], shape[3], x.shape[3] / shape[3], x.shape[3] / shape[3]};
  if (h.kernel * h.out == h.in && w.kernel * w.out == w.in) {
    const View sum = im.NewValue(MemoryType::kF32, shape, &x.strides);
    ReduceWindows(im, x, sum, ReduceKind::kSum, h, w,
                  [](WindowBody& window, BodyBuilder&) { return Cast(window.Element(0), kF32); });
    im.MapTo(im.OutputValue(0, &x.strides), {sum}, [&](BodyBuilder&, const Args& a) {
      return a[0] * (1.0 / static_cast<double>(h.kernel * w.kernel));
    });
    return absl::OkStatus();
  }
  // The windows are uneven: this is one product of selection weights per dimension, over the whole
  // image.
  Node node;
  node.domain = {shape[0], shape[1], h.out, w.out, h.in, w.in};
  node.kind = Loop{.reduced = 2, .reduce = ReduceKind::kSum};
  BodyBuilder body;
  const auto weight = [&](size_t out_dim, size_t in_dim, const PoolWindow& window) {
    const auto scaled = [&](int64_t step, int64_t add) {
      Shape strides(kRank, 0);
      strides[out_dim] = step;
      return body.Load(Importer::Iota(strides, add));
    };
    Shape at(kRank, 0);
    at[in_dim] = 1;
    const E position = body.Load(Importer::Iota(at));
    const E out = body.ConstInt(ScalarType::kI64, window.out);
    const E begin = Binary(Opcode::kFloorDiv, scaled(window.in, 0), out);
    const E end = Binary(Opcode::kFloorDiv, scaled(window.in, window.in + window.out - 1), out);
    const E inside = And(position >= begin, position < end);
    return Select(inside, 1.0 / Cast(end - begin, kF32), body.Const(kF32, 0));
  };
  const E element = body.Load(Access{
      x.value, x.type, {x.strides[0], x.strides[1], 0, 0, x.strides[2], x.strides[3]}, x.offset});
  const E factor = weight(2, 4, h) * weight(3, 5, w);
  const View out = im.OutputValue(0, &x.strides);
  Access access{out.value, out.type, out.strides, out.offset};
  access.strides.insert(access.strides.end(), {0, 0});
  body.Store(Select(factor > 0.0, Cast(element, kF32) * factor, body.Const(kF32, 0)), access);
  node.body = body.Take();
  im.AddNode(std::move(node));
  return absl::OkStatus();
}

const GuidRow kPoolingRows[] = {
    {"pt_maxpool_2d_fwd", InferPool, ImportMaxPool, true},
    {"pt_maxpool_2d_bwd", InferMaxPoolGradient, ImportMaxPoolGradient, true},
    {"avg_pool_2d_fwd", InferPool, ImportAveragePool, true},
    {"adaptive_avg_pool_2d_fwd", InferAdaptivePool, ImportAdaptivePool, true},
};

}  // namespace

std::span<const GuidRow> PoolingRows() { return kPoolingRows; }

}  // namespace hpu::graph_compiler
