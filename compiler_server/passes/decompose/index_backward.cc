// Rewrites sums, products and extremes that are accumulated at positions, and the gradients of
// views and of reads by index. Where several sources meet at one position they are combined in
// their order; sums and products are calculated in f32.
#include <algorithm>
#include <iterator>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"

namespace hpu::compiler {

namespace {

// `op` is one of the scatter ops.
Value* Join(Call& call, OpKind op, Value* x, int64_t dim, Value* index, Value* source) {
  source = call.b.Cast(source, x->type.dtype);
  return call.b.Emit(op, {x, index, source}, {{AttrKey::kDim, dim}});
}

}  // namespace

Value* AddAt(Call& call, Value* x, int64_t dim, Value* index, Value* source) {
  const DType dtype = x->type.dtype;
  const DType wide = IsFloat(dtype) ? Widened(dtype) : dtype;
  Value* sum = Join(call, OpKind::kScatterAdd, call.b.Cast(x, wide), dim, index, source);
  return call.b.Cast(sum, dtype);
}

Value* AddRows(Call& call, Value* x, int64_t dim, Value* index, Value* source) {
  Dims along(x->type.sizes.size(), 1);
  along[dim] = index->type.elements();
  Dims sizes = x->type.sizes;
  sizes[dim] = along[dim];
  index = call.b.Expand(call.b.Reshape(index, along), sizes);
  return AddAt(call, x, dim, index, call.b.Expand(source, sizes));
}

Value* PlaceAlong(Call& call, Value* x, int64_t dim, int64_t start, int64_t step, int64_t size) {
  Dims sizes = x->type.sizes;
  const int64_t count = sizes[dim];
  if (count == 0) {
    sizes[dim] = size;
    return call.b.Full(0, x->type.dtype, sizes);
  }
  if (step > 1 && count > 1) {
    const int64_t inner = NumElements(std::span(sizes).subspan(dim + 1));
    const int64_t outer = NumElements(std::span(sizes).first(dim));
    x = call.b.Reshape(x, {outer * count, 1, inner});
    x = call.b.Pad(x, {0, 0, 0}, {0, step - 1, 0}, 0);
    sizes[dim] = count * step;
    x = call.b.Slice(call.b.Reshape(x, sizes), dim, 0, (count - 1) * step + 1);
    sizes = x->type.sizes;
  }
  Dims low(sizes.size(), 0);
  Dims high(sizes.size(), 0);
  low[dim] = start;
  high[dim] = size - start - sizes[dim];
  if (low[dim] == 0 && high[dim] == 0) return x;
  return call.b.Pad(x, low, high, 0);
}

namespace {

// The arguments of a scatter. The source is cut to the sizes of the index, which may be smaller.
struct ScatterCall {
  Value* x;
  int64_t dim;
  Value* index;
  Value* source;
};

ScatterCall ScatterArguments(Call& call) {
  ScatterCall at{call.Tensor(kSelf), 0, call.Tensor("index"), nullptr};
  at.source = call.IsTensor("src") ? call.b.Cast(call.Tensor("src"), call.dtype())
                                   : call.b.Full(call.Stored("value", call.dtype()), call.dtype(),
                                                 at.index->type.sizes);
  if (call.refused() || at.x->type.rank() == 0 || at.index->type.rank() != at.x->type.rank() ||
      at.source->type.rank() != at.x->type.rank()) {
    call.Refuse("scatter into ", ToText(at.x->type));
    return at;
  }
  at.dim = call.Dim("dim", at.x->type.rank());
  for (int64_t i = 0; i < at.source->type.rank(); ++i) {
    at.source = call.b.Slice(at.source, i, 0, at.index->type.sizes[i]);
  }
  return at;
}

// scatter_add(x, dim, index, source)
void ScatterAdd(Call& call) {
  const ScatterCall at = ScatterArguments(call);
  if (!call.refused()) call.Return(AddAt(call, at.x, at.dim, at.index, at.source));
}

// A reduction of the values that meet at one place, and the value that changes nothing there.
struct Reduction {
  std::string_view name;
  OpKind op;
  double neutral;
};

constexpr Reduction kReductions[] = {
    {"sum", OpKind::kScatterAdd, 0},          {"add", OpKind::kScatterAdd, 0},
    {"mean", OpKind::kScatterAdd, 0},         {"prod", OpKind::kScatterMul, 1},
    {"multiply", OpKind::kScatterMul, 1},     {"amax", OpKind::kScatterMax, -kInfinity},
    {"amin", OpKind::kScatterMin, kInfinity},
};

// Products and sums are calculated in f32.
void ReduceInto(Call& call, const ScatterCall& at) {
  const std::string name = call.Text("reduce");
  const auto* const found =
      std::find_if(std::begin(kReductions), std::end(kReductions),
                   [&](const Reduction& reduction) { return reduction.name == name; });
  if (found == std::end(kReductions)) return call.Refuse("scatter with ", name);
  const bool whole = !call.Has("include_self") || call.Bool("include_self");
  const DType dtype = call.dtype();
  if (!IsFloat(dtype) && (name == "mean" || !whole)) {
    return call.Refuse("scatter of integers with ", name, ", or without the old values");
  }
  if (call.refused()) return;
  const DType wide = IsFloat(dtype) ? Widened(dtype) : dtype;
  Value* x = call.b.Cast(at.x, wide);
  if (!whole) {
    Value* neutral = call.b.Full(found->neutral, wide, at.index->type.sizes);
    x = Join(call, OpKind::kScatter, x, at.dim, at.index, neutral);
  }
  x = Join(call, found->op, x, at.dim, at.index, at.source);
  if (name == "mean") {
    Value* none = call.b.Full(whole ? 1 : 0, wide, x->type.sizes);
    Value* one = call.b.Full(1, wide, at.index->type.sizes);
    const Expr times{&call, AddAt(call, none, at.dim, at.index, one)};
    x = (Expr{&call, x} / Where(times == 0.0, 1.0, times)).value;
  }
  call.Return(call.b.Cast(x, dtype));
}

// scatter.reduce(x, dim, index, source, reduce), scatter.value_reduce(x, dim, index, number,
// reduce), scatter_reduce(..., include_self)
void ScatterReduce(Call& call) { ReduceInto(call, ScatterArguments(call)); }

// index_reduce(x, dim, index, source, reduce, include_self): the index is the same for all elements
// across `dim`.
void IndexReduce(Call& call) {
  ScatterCall at{call.Line(kSelf), 0, call.Line("index"), call.Line("source")};
  const Dims& sizes = at.source->type.sizes;
  if (call.refused() || at.x->type.rank() != at.source->type.rank() || !IsFloat(call.dtype())) {
    return call.Refuse("index_reduce of ", ToText(at.x->type));
  }
  at.dim = call.Dim("dim", at.x->type.rank());
  Dims along(sizes.size(), 1);
  along[at.dim] = at.index->type.elements();
  at.index = call.b.Expand(call.b.Reshape(at.index, along), sizes);
  ReduceInto(call, at);
}

// index_add(x, dim, index, source, alpha)
void IndexAdd(Call& call) {
  Value* x = call.Line(kSelf);
  Value* index = call.Line("index");
  Value* source = call.b.Cast(call.Line("source"), call.dtype());
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  // A source that would have to be spread is an error in PyTorch.
  Dims sizes = x->type.sizes;
  sizes[dim] = index->type.elements();
  if (source->type.sizes != sizes) return call.Refuse("a source of ", ToText(source->type));
  const double alpha = call.Float("alpha");
  if (alpha != 1) source = call.b.Binary(OpKind::kMul, source, alpha);
  if (!call.refused()) call.Return(AddRows(call, x, dim, index, source));
}

// embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq)
void EmbeddingBackward(Call& call) {
  Value* index = call.Tensor("indices");
  Expr grad = In(call, kGrad);
  const int64_t count = index->type.elements();
  if (call.refused() || grad.rank() == 0 || count == 0) return call.Refuse("no indices");
  index = call.b.Reshape(index, {count});
  grad = Reshape(grad, {count, grad.sizes().back()});
  const auto per_row = [&](Expr x) { return Reshape(x, {count, 1}); };
  const int64_t rows = call.Int("num_weights");
  if (call.Bool("scale_grad_by_freq")) {
    Value* none = call.b.Full(0, DType::kF32, {rows});
    Value* one = call.b.Full(1, DType::kF32, {count});
    const Expr times{&call, call.b.Gather(AddAt(call, none, 0, index, one), index, 0)};
    grad = grad / per_row(times);
  }
  const int64_t padding = call.Int("padding_idx");
  if (padding >= 0) {
    const Expr padded{&call, call.b.Binary(OpKind::kEq, index, static_cast<double>(padding))};
    grad = Where(per_row(padded), 0.0, grad);
  }
  Value* zeros = call.b.Full(0, grad.dtype(), {rows, grad.sizes().back()});
  Give(call, {&call, AddRows(call, zeros, 0, index, grad.value)});
}

// slice_backward(grad, input_sizes, dim, start, end, step)
void SliceBackward(Call& call) {
  Value* grad = call.Tensor(kGrad);
  const Dims sizes = call.Ints("input_sizes");
  const int64_t dim = call.WrapDim(call.Int("dim"), static_cast<int64_t>(sizes.size()));
  if (call.refused() || sizes.empty()) return call.Refuse("slice of a 0-d tensor");
  int64_t start = call.Int("start");
  if (start < 0) start += sizes[dim];
  start = std::clamp<int64_t>(start, 0, sizes[dim]);
  call.Return(PlaceAlong(call, grad, dim, start, call.Int("step"), sizes[dim]));
}

// select_backward(grad, input_sizes, dim, index)
void SelectBackward(Call& call) {
  Value* grad = call.Tensor(kGrad);
  const Dims sizes = call.Ints("input_sizes");
  const int64_t dim = call.WrapDim(call.Int("dim"), static_cast<int64_t>(sizes.size()));
  if (call.refused() || sizes.empty()) return call.Refuse("select of a 0-d tensor");
  Dims with = sizes;
  with[dim] = 1;
  const int64_t index = call.WrapDim(call.Int("index"), sizes[dim]);
  if (call.refused()) return;
  call.Return(PlaceAlong(call, call.b.Reshape(grad, with), dim, index, 1, sizes[dim]));
}

// Returns the permutation that moves the last two dimensions to places dim1 and dim2 of the result.
Dims FromTheEnd(int64_t rank, int64_t dim1, int64_t dim2) {
  Dims perm;
  int64_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    perm.push_back(dim == dim1 ? rank - 2 : (dim == dim2 ? rank - 1 : next++));
  }
  return perm;
}

// diagonal(x, offset, dim1, dim2): a slice with a step from the matrix written as one row.
void Diagonal(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t rank = x->type.rank();
  const int64_t dim1 = call.Dim("dim1", rank);
  const int64_t dim2 = call.Dim("dim2", rank);
  const int64_t offset = call.Int("offset");
  if (call.refused() || rank < 2) return call.Refuse("diagonal of ", ToText(x->type));
  Dims perm;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (dim != dim1 && dim != dim2) perm.push_back(dim);
  }
  perm.insert(perm.end(), {dim1, dim2});
  x = call.b.Permute(x, perm);
  Dims sizes = x->type.sizes;
  const int64_t columns = sizes.back();
  const int64_t length = call.type().sizes.back();
  const int64_t start = offset >= 0 ? offset : -offset * columns;
  if (length == 0) return call.Return(call.b.Full(0, call.dtype(), call.type().sizes));
  sizes.pop_back();
  sizes.back() *= columns;
  x = call.b.Reshape(x, sizes);
  call.Return(
      call.b.Slice(x, rank - 2, start, start + (length - 1) * (columns + 1) + 1, columns + 1));
}

// Gives the call a tensor of `sizes` with `diagonal` on its diagonal. All other elements are those
// of `around`, or 0 if it is nullptr.
void GiveDiagonal(Call& call, Value* diagonal, const Dims& sizes, Value* around) {
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t dim1 = call.WrapDim(call.Int("dim1"), rank);
  const int64_t dim2 = call.WrapDim(call.Int("dim2"), rank);
  const int64_t offset = call.Int("offset");
  if (call.refused() || rank < 2 || diagonal->type.elements() == 0) {
    return call.Refuse("diagonal of ", ir::ToText(sizes));
  }
  Value* columns =
      PlaceAlong(call, diagonal, rank - 2, std::max<int64_t>(offset, 0), 1, sizes[dim2]);
  Dims with = columns->type.sizes;
  with.insert(with.end() - 1, 1);
  Value* row = call.b.Reshape(call.b.Iota(static_cast<double>(offset), 1, DType::kI32, sizes[dim1]),
                              {sizes[dim1], 1});
  Value* column = call.b.Iota(0, 1, DType::kI32, sizes[dim2]);
  const Expr on{&call, call.b.Binary(OpKind::kEq, row, column)};
  const Expr each{&call, call.b.Reshape(columns, with)};
  const Dims perm = FromTheEnd(rank, dim1, dim2);
  Dims to_the_end(rank);
  for (int64_t dim = 0; dim < rank; ++dim) to_the_end[perm[dim]] = dim;
  const Expr y = around == nullptr
                     ? Where(on, each, 0.0)
                     : Where(on, each, Expr{&call, call.b.Permute(around, to_the_end)});
  call.Return(call.b.Permute(y.value, perm));
}

// diagonal_backward(grad, input_sizes, offset, dim1, dim2)
void DiagonalBackward(Call& call) {
  GiveDiagonal(call, call.Tensor(kGrad), call.Ints("input_sizes"), nullptr);
}

// diagonal_scatter(x, source, offset, dim1, dim2)
void DiagonalScatter(Call& call) {
  Value* x = call.Tensor(kSelf);
  GiveDiagonal(call, call.b.Cast(call.Tensor("src"), call.dtype()), x->type.sizes, x);
}

// diag_embed(x, offset, dim1, dim2)
void DiagonalEmbed(Call& call) {
  GiveDiagonal(call, call.Tensor(kSelf), call.type().sizes, nullptr);
}

// trace(x): the sum of the diagonal of a matrix
void Trace(Call& call) {
  const Expr x = Wide(call, call.Tensor(kSelf));
  if (call.refused() || x.rank() != 2 || NumElements(x.sizes()) == 0) {
    return call.Refuse("trace of ", ToText(x.value->type));
  }
  const int64_t columns = x.sizes()[1];
  const int64_t last = (std::min(x.sizes()[0], columns) - 1) * (columns + 1);
  const Expr row = Reshape(x, {NumElements(x.sizes())});
  const Expr diagonal = Cast(Slice(row, 0, 0, last + 1, columns + 1), WidenedFloat(call.dtype()));
  Give(call, Sum(diagonal, {0}, false));
}

constexpr HandlerRow kIndexBackwardRows[] = {
    {"aten.diag_embed.default", DiagonalEmbed},
    {"aten.diagonal.default", Diagonal},
    {"aten.diagonal_backward.default", DiagonalBackward},
    {"aten.diagonal_copy.default", Diagonal},
    {"aten.diagonal_scatter.default", DiagonalScatter},
    {"aten.embedding_dense_backward.default", EmbeddingBackward},
    {"aten.index_add.default", IndexAdd},
    {"aten.index_reduce.default", IndexReduce},
    {"aten.scatter.reduce", ScatterReduce},
    {"aten.scatter.value_reduce", ScatterReduce},
    {"aten.scatter_add.default", ScatterAdd},
    {"aten.scatter_reduce.two", ScatterReduce},
    {"aten.select_backward.default", SelectBackward},
    {"aten.slice_backward.default", SliceBackward},
    {"aten.trace.default", Trace},
};

}  // namespace

std::span<const HandlerRow> IndexBackwardRows() { return kIndexBackwardRows; }

}  // namespace hpu::compiler
