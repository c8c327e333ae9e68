// Pooling by the average, over windows of one size or, adaptively, of a number.
#include "graph_compiler/import/pooling_windows.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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

// Window i covers [floor(i * in / out), ceil((i + 1) * in / out)).
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
      Shape strides(kWindowRank, 0);
      strides[out_dim] = step;
      return body.Load(Importer::Iota(strides, add));
    };
    Shape at(kWindowRank, 0);
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

const GuidRow kAveragePoolRows[] = {
    {"avg_pool_2d_fwd", InferPool, ImportAveragePool, true},
    {"adaptive_avg_pool_2d_fwd", InferAdaptivePool, ImportAdaptivePool, true},
};

}  // namespace

std::span<const GuidRow> AveragePoolRows() { return kAveragePoolRows; }

}  // namespace hpu::graph_compiler
