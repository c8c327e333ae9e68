// Rewrites indexing and sorting.
#include <algorithm>

#include "compiler_server/passes/decompose/indexing.h"
#include "compiler_server/passes/decompose/vector_norm.h"

namespace hpu::compiler {
namespace {

void Embedding(Call& call) {
  call.Return(call.b.Gather(call.Tensor("weight"), call.Tensor("indices"), 0));
}

void IndexSelect(Call& call) {
  Value* x = call.Line(kSelf);
  Value* index = call.Line("index");
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (index->type.rank() == 0) index = call.b.Reshape(index, {1});
  call.Return(call.b.Gather(x, index, dim));
}

void GatherElements(Call& call) {
  Value* x = call.Tensor(kSelf);
  call.Return(call.b.Emit(OpKind::kGatherElements, {x, call.Tensor("index")},
                          {{AttrKey::kDim, call.Dim("dim", x->type.rank())}}));
}

Value* Scatter(Call& call, Value* x, int64_t dim, Value* index, Value* source) {
  return call.b.Emit(OpKind::kScatter, {x, index, source}, {{AttrKey::kDim, dim}});
}
int64_t ScatterDim(Call& call) { return call.Dim("dim", call.Tensor(kSelf)->type.rank()); }
void ScatterSource(Call& call) {
  Value* index = call.Tensor("index");
  Value* source = call.b.Cast(call.Tensor("src"), call.dtype());
  // The source may be larger than the index; only its corner is read.
  for (int64_t i = 0; i < index->type.rank() && i < source->type.rank(); ++i) {
    source = call.b.Slice(source, i, 0, index->type.sizes[i]);
  }
  call.Return(Scatter(call, call.Tensor(kSelf), ScatterDim(call), index, source));
}
void ScatterValue(Call& call) {
  Value* index = call.Tensor("index");
  Value* source = call.b.Full(call.Stored("value", call.dtype()), call.dtype(), index->type.sizes);
  call.Return(Scatter(call, call.Tensor(kSelf), ScatterDim(call), index, source));
}

// Maps negative indices, which PyTorch's indexing allows, to positions from the start.
Value* WrapIndex(Call& call, Value* index, int64_t size) {
  Value* negative = call.b.Binary(OpKind::kLt, index, 0.0);
  Value* wrapped = call.b.Binary(OpKind::kAdd, index, static_cast<double>(size));
  return call.b.Emit(OpKind::kWhere, {negative, wrapped, index});
}

// Returns x with `source` stored at the positions of `index` along the dimension. One position is
// written as a choice per element, which fuses with the producer of x and with the readers of the
// result. Several positions are stores in order. If x is an input of the graph, one position is a
// store as well, because it then happens in place if the graph overwrites that input with the
// result (lowering/segment.h).
Value* PutAt(Call& call, Value* x, int64_t dim, Value* index, Value* source) {
  Dims along(x->type.sizes.size(), 1);
  along[dim] = index->type.elements();
  index = call.b.Reshape(index, along);
  if (along[dim] != 1 || x->kind == ir::ValueKind::kInput) {
    Dims sizes = x->type.sizes;
    sizes[dim] = along[dim];
    return Scatter(call, x, dim, call.b.Expand(index, sizes), call.b.Expand(source, sizes));
  }
  along[dim] = x->type.sizes[dim];
  Value* positions = call.b.Reshape(call.b.Iota(0, 1, index->type.dtype, along[dim]), along);
  Value* chosen = call.b.Binary(OpKind::kEq, positions, index);
  return call.b.Emit(OpKind::kWhere, {chosen, source, x});
}

// index_copy(x, dim, index, source)
void IndexCopy(Call& call) {
  Value* x = call.Line(kSelf);
  Value* index = call.Line("index");
  Value* source = call.b.Cast(call.Line("source"), call.dtype());
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (!call.refused()) call.Return(PutAt(call, x, dim, index, source));
}

// index_fill(x, dim, index, value)
void IndexFill(Call& call) {
  Value* x = call.Line(kSelf);
  Value* index = call.Line("index");
  Value* value = call.Chosen("value", call.dtype());
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  call.Return(PutAt(call, x, dim, WrapIndex(call, index, x->type.sizes[dim]), value));
}

// All index tensors of a call as one index into the merged dimensions [first, last). If the tensors
// are adjacent, as in x[:, i, j], these are their dimensions. Otherwise, as in x[:, i, :, j], they
// are all dimensions from 0 to that of the last tensor.
struct JoinedIndex {
  Value* position = nullptr;
  int64_t first = 0, last = 0;
  Dims sizes;  // the sizes of x after these dimensions are merged
};

// Returns one index into the merged dimensions [first, last). A dimension without a tensor is
// enumerated in full. Enumerated dimensions come after the dimensions of the tensors, as in
// PyTorch's result. For a call that writes, positions are negative where an index is out of range.
Value* MergeIndices(Call& call, const Dims& sizes, const std::vector<Value*>& indices,
                    int64_t first, int64_t last, bool writes) {
  Value* position = nullptr;
  Value* outside = nullptr;
  Dims counted;
  const bool several =
      std::count(indices.begin() + first, indices.begin() + last, nullptr) < last - first - 1;
  for (int64_t dim = first; dim < last; ++dim) {
    if (position != nullptr) {
      position = call.b.Binary(OpKind::kMul, position, static_cast<double>(sizes[dim]));
    }
    if (indices[dim] == nullptr) continue;
    Value* index = WrapIndex(call, call.b.Cast(indices[dim], DType::kI64), sizes[dim]);
    position = position == nullptr ? index : call.b.Binary(OpKind::kAdd, position, index);
    if (!writes || !several) continue;
    // The merged position of an index that is too large would be inside.
    Value* beyond = call.b.Emit(
        OpKind::kLogicalOr, {call.b.Binary(OpKind::kLt, index, 0.0),
                             call.b.Binary(OpKind::kGe, index, static_cast<double>(sizes[dim]))});
    outside = outside == nullptr ? beyond : call.b.Emit(OpKind::kLogicalOr, {outside, beyond});
  }
  if (outside != nullptr) {
    const int64_t places = NumElements(std::span(sizes).subspan(first, last - first));
    Value* nowhere = call.b.Full(-static_cast<double>(places), DType::kI64, position->type.sizes);
    position = call.b.Emit(OpKind::kWhere,
                           {call.b.Expand(outside, position->type.sizes), nowhere, position});
  }
  for (int64_t dim = first; dim < last; ++dim) {
    if (indices[dim] == nullptr) counted.push_back(dim);
  }
  Dims shape = position->type.sizes;
  const size_t behind = shape.size();
  shape.resize(behind + counted.size(), 1);
  if (!counted.empty()) position = call.b.Reshape(position, shape);
  for (size_t i = 0; i < counted.size(); ++i) {
    int64_t stride = 1;
    for (int64_t dim = counted[i] + 1; dim < last; ++dim) stride *= sizes[dim];
    Dims along(shape.size(), 1);
    along[behind + i] = sizes[counted[i]];
    Value* count = call.b.Iota(0, static_cast<double>(stride), DType::kI64, along[behind + i]);
    position = call.b.Binary(OpKind::kAdd, position, call.b.Reshape(count, along));
  }
  return position;
}

// Refuses the call if the indices cannot be joined.
JoinedIndex JoinIndices(Call& call, const Value* x, const std::vector<Value*>& indices,
                        bool writes) {
  JoinedIndex joined;
  const Dims& sizes = x->type.sizes;
  int64_t first = 0;
  while (first < static_cast<int64_t>(indices.size()) && indices[first] == nullptr) ++first;
  int64_t last = static_cast<int64_t>(indices.size());
  while (last > first && indices[last - 1] == nullptr) --last;
  if (call.refused() || first == last || last > x->type.rank()) {
    call.Refuse("indexing of ", ToText(x->type));
    return joined;
  }
  const auto is_mask = [](const Value* index) {  // PyTorch accepts bytes as masks, too
    return index != nullptr && (!IsInteger(index->type.dtype) || index->type.dtype == DType::kU8);
  };
  if (std::any_of(indices.begin(), indices.end(), is_mask)) {
    call.Refuse("indexing by a mask");
    return joined;
  }
  const auto from = indices.begin() + first;
  if (std::find(from, indices.begin() + last, nullptr) != indices.begin() + last) first = 0;
  joined.position = MergeIndices(call, sizes, indices, first, last, writes);
  joined.first = first;
  joined.last = last;
  int64_t merged = 1;
  for (int64_t dim = first; dim < last; ++dim) merged *= sizes[dim];
  joined.sizes.assign(sizes.begin(), sizes.begin() + first);
  joined.sizes.push_back(merged);
  joined.sizes.insert(joined.sizes.end(), sizes.begin() + last, sizes.end());
  return joined;
}

void IndexTensor(Call& call) {
  Value* x = call.Tensor(kSelf);
  const JoinedIndex index = JoinIndices(call, x, call.OptionalTensors("indices"), /*writes=*/false);
  if (call.refused()) return;
  call.Return(call.b.Gather(call.b.Reshape(x, index.sizes), index.position, index.first));
}

// x[mask] = value, or x[mask] += value, for a single value; the mask covers the dimensions of x
// from `first` on.
void PutMasked(Call& call, Value* x, Value* mask, int64_t first, Value* value, bool adds) {
  const Dims& sizes = x->type.sizes;
  const auto from = sizes.begin() + std::min<int64_t>(first, x->type.rank());
  const bool fits = first + mask->type.rank() <= x->type.rank() &&
                    std::equal(mask->type.sizes.begin(), mask->type.sizes.end(), from);
  if (!fits || value->type.elements() != 1) return call.Refuse("several values put by a mask");
  Dims broadcast(sizes.size(), 1);
  std::copy(mask->type.sizes.begin(), mask->type.sizes.end(), broadcast.begin() + first);
  value = call.b.Reshape(value, {});
  if (adds) value = call.b.Binary(OpKind::kAdd, x, value);
  call.Return(call.b.Emit(OpKind::kWhere, {call.b.Reshape(mask, broadcast), value, x}));
}

// index_put(x, indices, values, accumulate)
void IndexPut(Call& call) {
  Value* x = call.Tensor(kSelf);
  const std::vector<Value*> indices = call.OptionalTensors("indices");
  Value* values = call.b.Cast(call.Tensor("values"), call.dtype());
  const bool adds = call.Bool("accumulate");
  if (call.refused()) return;
  const auto is_given = [](const Value* index) { return index != nullptr; };
  const auto given = std::find_if(indices.begin(), indices.end(), is_given);
  if (given != indices.end() && (*given)->type.dtype == DType::kBool &&
      std::count_if(indices.begin(), indices.end(), is_given) == 1) {
    return PutMasked(call, x, *given, given - indices.begin(), values, adds);
  }
  const JoinedIndex index = JoinIndices(call, x, indices, /*writes=*/true);
  if (call.refused()) return;
  // The values' dimensions for the positions are at the place of the merged dimension.
  const Dims& places = index.position->type.sizes;
  Dims sizes = index.sizes;
  sizes.erase(sizes.begin() + index.first);
  sizes.insert(sizes.begin() + index.first, places.begin(), places.end());
  values = call.b.Expand(values, sizes);
  Dims flat = index.sizes;
  flat[index.first] = index.position->type.elements();
  values = call.b.Reshape(values, flat);
  x = call.b.Reshape(x, index.sizes);
  Value* put = adds ? AddRows(call, x, index.first, index.position, values)
                    : PutAt(call, x, index.first, index.position, values);
  call.Return(call.b.Reshape(put, call.type().sizes));
}

// put(x, index, source, accumulate): positions count the elements of x as one row.
void Put(Call& call) {
  Value* x = call.Tensor(kSelf);
  const auto flat = [&](Value* y) { return call.b.Reshape(y, {y->type.elements()}); };
  Value* row = flat(x);
  Value* index = WrapIndex(call, flat(call.Tensor("index")), x->type.elements());
  Value* source = flat(call.b.Cast(call.Tensor("source"), call.dtype()));
  if (call.refused()) return;
  Value* put = call.Bool("accumulate") ? AddRows(call, row, 0, index, source)
                                       : PutAt(call, row, 0, index, source);
  call.Return(call.b.Reshape(put, call.type().sizes));
}

// embedding_renorm(x, indices, max_norm, norm_type) scales the named rows down to `max_norm`. A row
// that is named several times is written several times, with the same values.
void EmbeddingRenorm(Call& call) {
  constexpr double kAgainstZero = 1e-7;  // as in PyTorch's kernel
  Value* x = call.Tensor(kSelf);
  Value* index = call.Tensor("indices");
  index = call.b.Reshape(index, {index->type.elements()});
  if (call.refused() || x->type.rank() != 2) return call.Refuse("rows of ", ToText(x->type));
  const double limit = call.Float("max_norm");
  const Expr rows = In(call, call.b.Gather(x, index, 0));
  const Expr norm = VectorNorm(rows, call.Float("norm_type"), {1}, true);
  const Expr scaled = Where(norm > limit, rows * (limit / (norm + kAgainstZero)), rows);
  Value* source = call.b.Cast(scaled.value, call.dtype());
  if (!call.refused()) call.Return(PutAt(call, x, 0, index, source));
}

void EmitTopk(Call& call, int64_t k, int64_t dim, bool largest) {
  Value* x = call.Tensor(kSelf);
  const DType dtype = x->type.dtype;
  // Truth values are sorted as numbers 0 and 1, whatever bytes they are.
  if (dtype == DType::kBool) x = call.b.Cast(x, DType::kI32);
  ir::Node* node = call.b.EmitNode(
      OpKind::kTopk, {x}, {{AttrKey::kK, k}, {AttrKey::kDim, dim}, {AttrKey::kLargest, largest}});
  call.Return({call.b.Cast(node->results[0], dtype), node->results[1]});
}
void Topk(Call& call) {
  const int64_t rank = call.Tensor(kSelf)->type.rank();
  EmitTopk(call, call.Int("k"), call.Dim("dim", rank), call.Bool("largest"));
}
void Sort(Call& call) {
  const TensorType& type = call.Tensor(kSelf)->type;
  const int64_t dim = call.Dim("dim", type.rank());
  if (call.refused()) return;
  EmitTopk(call, type.sizes[dim], dim, call.Bool("descending"));
}
void Argsort(Call& call) {
  Sort(call);
  if (call.results().size() == 2) call.Return(call.results()[1]);
}

void OneHot(Call& call) {
  Value* x = call.Tensor(kSelf);
  if (call.refused() || call.type().rank() == 0) return call.Refuse("one_hot");
  Dims sizes = x->type.sizes;
  sizes.push_back(1);
  Value* classes = call.b.Iota(0, 1, x->type.dtype, call.type().sizes.back());
  Value* equal = call.b.Binary(OpKind::kEq, call.b.Reshape(x, sizes), classes);
  call.Return(call.b.Cast(equal, call.dtype()));
}

// take(x, index): positions count the elements of x as one row.
void Take(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t count = x->type.elements();
  Value* index = WrapIndex(call, call.Tensor("index"), count);
  call.Return(call.b.Gather(call.b.Reshape(x, {count}), index, 0));
}

constexpr HandlerRow kIndexRows[] = {
    {"aten._index_put_impl.default", IndexPut},
    {"aten._unsafe_index.Tensor", IndexTensor},
    {"aten._unsafe_index_put.default", IndexPut},
    {"aten.argsort.default", Argsort},
    {"aten.embedding.default", Embedding},
    {"aten.embedding_renorm.default", EmbeddingRenorm},
    {"aten.gather.default", GatherElements},
    {"aten.index.Tensor", IndexTensor},
    {"aten.index_copy.default", IndexCopy},
    {"aten.index_fill.int_Scalar", IndexFill},
    {"aten.index_fill.int_Tensor", IndexFill},
    {"aten.index_put.default", IndexPut},
    {"aten.index_select.default", IndexSelect},
    {"aten.one_hot.default", OneHot},
    {"aten.put.default", Put},
    {"aten.scatter.src", ScatterSource},
    {"aten.scatter.value", ScatterValue},
    {"aten.sort.default", Sort},
    {"aten.sort.stable", Sort},
    {"aten.take.default", Take},
    {"aten.topk.default", Topk},
};

}  // namespace

std::span<const HandlerRow> IndexRows() { return kIndexRows; }

}  // namespace hpu::compiler
