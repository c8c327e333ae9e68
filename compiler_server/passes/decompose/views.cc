// Rewrites views, copies and conversions: calls that move no data in PyTorch, or only copy it.
#include <algorithm>
#include <numeric>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

// view, flatten, squeeze and the like are fully described by the declared sizes.
void ReshapeToDeclared(Call& call) {
  call.Return(call.b.Reshape(call.Tensor(kSelf), call.type().sizes));
}

void ExpandToDeclared(Call& call) {
  call.Return(call.b.Expand(call.Tensor(kSelf), call.type().sizes));
}

// clone, detach and contiguous return the same elements. Memory is determined by the storages.
void Identity(Call& call) { call.Return(call.Tensor(kSelf)); }

void Convert(Call& call) {
  if (call.DeviceIs("device", "cpu")) return call.Refuse("copy to the host");
  call.Return(call.b.Cast(call.Tensor(kSelf), call.dtype()));
}

void FeatureDropout(Call& call) {
  if (call.Bool("train") && call.Float("p") != 0) return call.Refuse("dropout in training");
  call.Return(call.Tensor("input"));
}

Dims InOrder(int64_t rank) {
  Dims perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  return perm;
}

void Permute(Call& call) {
  Value* x = call.Tensor(kSelf);
  Dims perm = call.Ints("dims");
  for (int64_t& dim : perm) dim = call.WrapDim(dim, x->type.rank());
  call.Return(call.b.Permute(x, std::move(perm)));
}

void Swap(Call& call, int64_t first, int64_t second) {
  Value* x = call.Tensor(kSelf);
  Dims perm = InOrder(x->type.rank());
  if (call.refused()) return;
  std::swap(perm[first], perm[second]);
  call.Return(call.b.Permute(x, std::move(perm)));
}

void Transpose(Call& call) {
  const int64_t rank = call.Tensor(kSelf)->type.rank();
  Swap(call, call.Dim("dim0", rank), call.Dim("dim1", rank));
}

void SwapAxes(Call& call) {
  const int64_t rank = call.Tensor(kSelf)->type.rank();
  Swap(call, call.Dim("axis0", rank), call.Dim("axis1", rank));
}

void MatrixTranspose(Call& call) {
  const int64_t rank = call.Tensor(kSelf)->type.rank();
  if (rank < 2) return Identity(call);
  Swap(call, rank - 2, rank - 1);
}

void ReverseDims(Call& call) {
  Value* x = call.Tensor(kSelf);
  Dims perm = InOrder(x->type.rank());
  call.Return(call.b.Permute(x, Dims(perm.rbegin(), perm.rend())));
}

void MoveDim(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t from = call.Dim("source", x->type.rank());
  const int64_t to = call.Dim("destination", x->type.rank());
  if (call.refused()) return;
  Dims perm = InOrder(x->type.rank());
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  call.Return(call.b.Permute(x, std::move(perm)));
}

void Slice(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  const int64_t size = x->type.sizes[dim];
  const auto clamp = [&](int64_t at) {
    if (at < 0) at += size;
    return std::clamp<int64_t>(at, 0, size);
  };
  const int64_t start = clamp(call.Int("start", 0));
  const int64_t end = clamp(call.Int("end", size));
  call.Return(call.b.Slice(x, dim, start, std::max(start, end), call.Int("step")));
}

void Select(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  const int64_t index = call.Dim("index", x->type.sizes[dim]);
  Value* y = call.b.Slice(x, dim, index, index + 1);
  call.Return(call.b.Reshape(y, call.type().sizes));
}

void Narrow(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  int64_t start = call.Int("start");
  if (start < 0) start += x->type.sizes[dim];
  call.Return(call.b.Slice(x, dim, start, start + call.Int("length")));
}

// split and chunk return consecutive pieces, whose lengths are declared.
void Split(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  std::vector<Value*> pieces;
  int64_t start = 0;
  for (size_t i = 0; i < call.result_count(); ++i) {
    if (call.type(i).rank() != x->type.rank()) return call.Refuse("pieces of another rank");
    const int64_t limit = start + call.type(i).sizes[dim];
    pieces.push_back(call.used(i) ? call.b.Slice(x, dim, start, limit) : nullptr);
    start = limit;
  }
  call.Return(std::move(pieces));
}

void Unbind(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  std::vector<Value*> pieces;
  for (size_t i = 0; i < call.result_count() && !call.refused(); ++i) {
    const auto at = static_cast<int64_t>(i);
    pieces.push_back(call.used(i)
                         ? call.b.Reshape(call.b.Slice(x, dim, at, at + 1), call.type(i).sizes)
                         : nullptr);
  }
  call.Return(std::move(pieces));
}

// as_strided_scatter(x, source, size, stride, storage_offset), where it overwrites every element of
// a row-major x: the result is the source in the order of memory.
void OverwriteStrided(Call& call) {
  Value* source = call.b.Cast(call.Tensor("src"), call.dtype());
  const Dims sizes = call.Ints("size");
  const Dims strides = call.Ints("stride");
  Dims perm;
  if (call.refused() || strides.size() != sizes.size() || call.Int("storage_offset", 0) != 0 ||
      !IsDense(sizes, strides, &perm) || !call.IsRowMajor(kSelf) ||
      source->type.elements() != call.type().elements()) {
    return call.Refuse("writes through as_strided");
  }
  call.Return(call.b.Reshape(call.b.Permute(source, perm), call.type().sizes));
}

constexpr HandlerRow kViewRows[] = {
    {"aten._to_copy.default", Convert},
    {"aten._unsafe_view.default", ReshapeToDeclared},
    {"aten.alias.default", Identity},
    {"aten.as_strided_scatter.default", OverwriteStrided},
    {"aten.broadcast_to.default", ExpandToDeclared},
    {"aten.chunk.default", Split},
    {"aten.clone.default", Identity},
    {"aten.contiguous.default", Identity},
    {"aten.detach.default", Identity},
    {"aten.expand.default", ExpandToDeclared},
    {"aten.expand_as.default", ExpandToDeclared},
    {"aten.feature_dropout.default", FeatureDropout},
    {"aten.flatten.using_ints", ReshapeToDeclared},
    {"aten.lift_fresh.default", Identity},
    {"aten.lift_fresh_copy.default", Identity},
    {"aten.mT.default", MatrixTranspose},
    {"aten.movedim.int", MoveDim},
    {"aten.narrow.default", Narrow},
    {"aten.numpy_T.default", ReverseDims},
    {"aten.permute.default", Permute},
    {"aten.ravel.default", ReshapeToDeclared},
    {"aten.reshape.default", ReshapeToDeclared},
    {"aten.reshape_as.default", ReshapeToDeclared},
    {"aten.select.int", Select},
    {"aten.slice.Tensor", Slice},
    {"aten.split.Tensor", Split},
    {"aten.split.sizes", Split},
    {"aten.unsafe_split.Tensor", Split},
    {"aten.unsafe_split_with_sizes.default", Split},
    {"aten.split_with_sizes.default", Split},
    {"aten.squeeze.default", ReshapeToDeclared},
    {"aten.squeeze.dim", ReshapeToDeclared},
    {"aten.squeeze.dims", ReshapeToDeclared},
    {"aten.swapaxes.default", SwapAxes},
    {"aten.swapdims.default", Transpose},
    {"aten.t.default", MatrixTranspose},
    {"aten.to.device", Convert},
    {"aten.to.dtype", Convert},
    {"aten.to.dtype_layout", Convert},
    {"aten.to.other", Convert},
    {"aten.transpose.int", Transpose},
    {"aten.type_as.default", Convert},
    {"aten.unbind.int", Unbind},
    {"aten.unflatten.int", ReshapeToDeclared},
    {"aten.unsqueeze.default", ReshapeToDeclared},
    {"aten.view.default", ReshapeToDeclared},
    {"aten.view_as.default", ReshapeToDeclared},
    {"aten.alias_copy.default", Identity},
    {"aten.detach_copy.default", Identity},
    {"aten.expand_copy.default", ExpandToDeclared},
    {"aten.narrow_copy.default", Narrow},
    {"aten.permute_copy.default", Permute},
    {"aten.select_copy.int", Select},
    {"aten.slice_copy.Tensor", Slice},
    {"aten.split_copy.Tensor", Split},
    {"aten.split_with_sizes_copy.default", Split},
    {"aten.squeeze_copy.default", ReshapeToDeclared},
    {"aten.squeeze_copy.dim", ReshapeToDeclared},
    {"aten.squeeze_copy.dims", ReshapeToDeclared},
    {"aten.t_copy.default", MatrixTranspose},
    {"aten.transpose_copy.int", Transpose},
    {"aten.unbind_copy.int", Unbind},
    {"aten.unsqueeze_copy.default", ReshapeToDeclared},
    {"aten.view_copy.default", ReshapeToDeclared},
};

}  // namespace

std::span<const HandlerRow> ViewRows() { return kViewRows; }

}  // namespace hpu::compiler
