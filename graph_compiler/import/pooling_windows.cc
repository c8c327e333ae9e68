#include "graph_compiler/import/pooling_windows.h"

#include <algorithm>

#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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

Shape Along(size_t dim, int64_t step, size_t dim2, int64_t step2) {
  Shape strides(kWindowRank, 0);
  strides[dim] = step;
  strides[dim2] = step2;
  return strides;
}

}  // namespace

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

E Within(E at, int64_t size) { return And(at >= ConstLike(at, 0), at < static_cast<double>(size)); }

E WindowBody::Row() {
  return body_.Load(Importer::Iota(Along(2, h_.stride, 4, h_.dilation), -h_.pad_begin));
}

E WindowBody::Column() {
  return body_.Load(Importer::Iota(Along(3, w_.stride, 5, w_.dilation), -w_.pad_begin));
}

E WindowBody::Element(double outside) {
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

E WindowBody::Inside() { return And(Within(Row(), h_.in), Within(Column(), w_.in)); }

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

}  // namespace hpu::graph_compiler
