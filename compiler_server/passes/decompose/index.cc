// Indexing, sorting.
#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

constexpr Arg kSelf{0, "self"};

void Embedding(Call& call) {
  call.Return(call.b.Gather(call.Tensor({0, "weight"}), call.Tensor({1, "indices"}), 0));
}

void IndexSelect(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* index = call.Tensor({2, "index"});
  const int64_t dim = call.Dim({1, "dim"}, x->type.rank());
  if (index->type.rank() == 0) index = call.b.Reshape(index, {1});
  call.Return(call.b.Gather(x, index, dim));
}

void GatherElements(Call& call) {
  Value* x = call.Tensor(kSelf);
  call.Return(call.b.Emit(OpKind::kGatherElements, {x, call.Tensor({2, "index"})},
                          {{AttrKey::kDim, call.Dim({1, "dim"}, x->type.rank())}}));
}

void EmitScatter(Call& call, Value* x, Value* index, Value* source) {
  call.Return(call.b.Emit(OpKind::kScatter, {x, index, source},
                          {{AttrKey::kDim, call.Dim({1, "dim"}, x->type.rank())}}));
}
void ScatterSource(Call& call) {
  Value* index = call.Tensor({2, "index"});
  Value* source = call.b.Cast(call.Tensor({3, "src"}), call.dtype());
  // The source may be larger than the index; only its corner is read.
  for (int64_t i = 0; i < index->type.rank() && i < source->type.rank(); ++i) {
    source = call.b.Slice(source, i, 0, index->type.sizes[i]);
  }
  EmitScatter(call, call.Tensor(kSelf), index, source);
}
void ScatterValue(Call& call) {
  Value* index = call.Tensor({2, "index"});
  Value* source = call.b.Full(call.Float({3, "value"}, 0), call.dtype(), index->type.sizes);
  EmitScatter(call, call.Tensor(kSelf), index, source);
}

// An index of PyTorch's indexing may be negative.
Value* WrapIndex(Call& call, Value* index, int64_t size) {
  Value* negative = call.b.Binary(OpKind::kLt, index, 0.0);
  Value* wrapped = call.b.Binary(OpKind::kAdd, index, static_cast<double>(size));
  return call.b.Emit(OpKind::kWhere, {negative, wrapped, index});
}

// x with `source` at the positions of `index` along the dimension: one position is a choice per
// element, which fuses with what made x and what reads the result; several are stores in order.
// Into an input also one is a store: if the graph overwrites the input with it, it happens in place
// (lowering/segment.h).
void PutAt(Call& call, Value* x, int64_t dim, Value* index, Value* source) {
  Dims along(x->type.sizes.size(), 1);
  along[dim] = index->type.elements();
  index = call.b.Reshape(index, along);
  if (along[dim] != 1 || x->kind == ir::ValueKind::kInput) {
    Dims sizes = x->type.sizes;
    sizes[dim] = along[dim];
    return EmitScatter(call, x, call.b.Expand(index, sizes), call.b.Expand(source, sizes));
  }
  along[dim] = x->type.sizes[dim];
  Value* positions = call.b.Reshape(call.b.Iota(0, 1, index->type.dtype, along[dim]), along);
  Value* chosen = call.b.Binary(OpKind::kEq, positions, index);
  call.Return(call.b.Emit(OpKind::kWhere, {chosen, source, x}));
}

// index_copy(x, dim, index, source)
void IndexCopy(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* index = call.Tensor({2, "index"});
  Value* source = call.b.Cast(call.Tensor({3, "source"}), call.dtype());
  if (call.refused() || x->type.rank() == 0) return call.Refuse("index_copy of 0-d tensors");
  const int64_t dim = call.Dim({1, "dim"}, x->type.rank());
  if (!call.refused()) PutAt(call, x, dim, index, source);
}

// index_fill(x, dim, index, value)
void IndexFill(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* index = call.Tensor({2, "index"});
  Value* value = call.Operand({3, "value"}, call.dtype());
  if (call.refused() || x->type.rank() == 0) return call.Refuse("index_fill of 0-d tensors");
  const int64_t dim = call.Dim({1, "dim"}, x->type.rank());
  if (!call.refused()) PutAt(call, x, dim, WrapIndex(call, index, x->type.sizes[dim]), value);
}

// x[:, i, j]: adjacent index tensors are one index into the merged dimensions.
void IndexTensor(Call& call) {
  Value* x = call.Tensor(kSelf);
  const std::vector<Value*> indices = call.OptionalTensors({1, "indices"});
  int64_t first = 0;
  while (first < static_cast<int64_t>(indices.size()) && indices[first] == nullptr) ++first;
  int64_t last = static_cast<int64_t>(indices.size());
  while (last > first && indices[last - 1] == nullptr) --last;
  if (call.refused() || first == last || last > x->type.rank()) {
    return call.Refuse("indexing of ", ToText(x->type));
  }
  Value* position = nullptr;
  int64_t merged = 1;
  for (int64_t dim = first; dim < last; ++dim) {
    Value* index = indices[dim];
    if (index == nullptr) return call.Refuse("index tensors that are not adjacent");
    if (!IsInteger(index->type.dtype)) return call.Refuse("indexing by a mask");
    const int64_t size = x->type.sizes[dim];
    index = WrapIndex(call, call.b.Cast(index, DType::kI64), size);
    if (position != nullptr) {
      position = call.b.Binary(OpKind::kMul, position, static_cast<double>(size));
      index = call.b.Binary(OpKind::kAdd, position, index);
    }
    position = index;
    merged *= size;
  }
  Dims sizes(x->type.sizes.begin(), x->type.sizes.begin() + first);
  sizes.push_back(merged);
  sizes.insert(sizes.end(), x->type.sizes.begin() + last, x->type.sizes.end());
  call.Return(call.b.Gather(call.b.Reshape(x, sizes), position, first));
}

void EmitTopk(Call& call, int64_t k, int64_t dim, bool largest) {
  ir::Node* node =
      call.b.EmitNode(OpKind::kTopk, {call.Tensor(kSelf)},
                      {{AttrKey::kK, k}, {AttrKey::kDim, dim}, {AttrKey::kLargest, largest}});
  call.Return({node->results[0], node->results[1]});
}
void Topk(Call& call) {
  const int64_t rank = call.Tensor(kSelf)->type.rank();
  EmitTopk(call, call.Int({1, "k"}), call.Dim({2, "dim"}, rank, -1),
           call.Bool({3, "largest"}, true));
}
void SortBy(Call& call, Arg dim_arg, Arg descending) {
  const TensorType& type = call.Tensor(kSelf)->type;
  const int64_t dim = call.Dim(dim_arg, type.rank(), -1);
  if (call.refused()) return;
  EmitTopk(call, type.sizes[dim], dim, call.Bool(descending, false));
}
void Sort(Call& call) { SortBy(call, {1, "dim"}, {2, "descending"}); }
// sort.stable(self, *, stable, dim, descending)
void SortStable(Call& call) { SortBy(call, {9, "dim"}, {9, "descending"}); }
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

constexpr HandlerRow kRows[] = {
    {"aten.argsort.default", Argsort},         {"aten.embedding.default", Embedding},
    {"aten.gather.default", GatherElements},   {"aten.index.Tensor", IndexTensor},
    {"aten.index_copy.default", IndexCopy},    {"aten.index_fill.int_Scalar", IndexFill},
    {"aten.index_fill.int_Tensor", IndexFill}, {"aten.index_select.default", IndexSelect},
    {"aten.one_hot.default", OneHot},          {"aten.scatter.src", ScatterSource},
    {"aten.scatter.value", ScatterValue},      {"aten.sort.default", Sort},
    {"aten.sort.stable", SortStable},          {"aten.topk.default", Topk},
};

}  // namespace

std::span<const HandlerRow> IndexRows() { return kRows; }

}  // namespace hpu::compiler
