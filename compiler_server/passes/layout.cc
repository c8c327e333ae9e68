#include "compiler_server/passes/layout.h"

#include <algorithm>
#include <numeric>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/ir/views.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

// An operand that is smaller than the result by this factor may be permuted the other way instead.
constexpr int64_t kSmallOperandRatio = 4;

const Dims* PermOf(const Value* value) {
  const bool permuted =
      value != nullptr && value->producer != nullptr && value->producer->op == OpKind::kPermute;
  return permuted ? &value->producer->Ints(AttrKey::kPerm) : nullptr;
}

Value* SourceOf(const Value* permuted) { return permuted->producer->operands[0]; }

// Entry i of `dims` describes dimension i after the permute; the result describes dimension i
// before it.
Dims Before(const Dims& perm, const Dims& dims) {
  Dims result(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) result[perm[i]] = dims[i];
  return result;
}

// Emits a permute, or a reshape if only dimensions of size 1 move.
Value* Reorder(Builder& b, Value* x, const Dims& perm) {
  Dims sizes;
  int64_t last = -1;
  bool in_order = true;
  for (int64_t dim : perm) {
    sizes.push_back(x->type.sizes[dim]);
    if (sizes.back() == 1) continue;
    in_order = in_order && dim > last;
    last = dim;
  }
  return in_order ? b.Reshape(x, std::move(sizes)) : b.Permute(x, perm);
}

// The operand in the form that it needs when the node runs before the permute; nullptr if that
// costs too much.
Value* OperandBefore(Builder& b, Value* operand, const Dims& perm, int64_t result_elements) {
  if (operand->type.rank() == 0) return operand;
  const Dims* own = PermOf(operand);
  if (own != nullptr && *own == perm) return SourceOf(operand);
  if (operand->type.elements() * kSmallOperandRatio > result_elements) return nullptr;
  Dims sizes = operand->type.sizes;
  sizes.insert(sizes.begin(), perm.size() - sizes.size(), 1);
  return Reorder(b, b.Reshape(operand, sizes), ir::InversePermutation(perm));
}

Value* MoveThroughElementwise(Node& node, Builder& b) {
  const Dims* perm = nullptr;
  for (const Value* operand : node.operands) {
    if (perm == nullptr && operand->type.sizes == node.type().sizes) perm = PermOf(operand);
  }
  if (perm == nullptr) return nullptr;
  std::vector<Value*> operands;
  for (Value* operand : node.operands) {
    operands.push_back(OperandBefore(b, operand, *perm, node.type().elements()));
    if (operands.back() == nullptr) return nullptr;
  }
  const ir::TensorType type = ir::Contiguous(node.type().dtype, Before(*perm, node.type().sizes));
  return b.Permute(b.Emit(node.op, std::move(operands), node.attrs, &type), *perm);
}

Value* MoveThroughReduce(Node& node, Builder& b) {
  const Dims* perm = PermOf(node.operands[0]);
  if (perm == nullptr) return nullptr;
  Dims dims;
  for (int64_t dim : node.Ints(AttrKey::kDims)) dims.push_back((*perm)[dim]);
  std::sort(dims.begin(), dims.end());
  const bool keepdim = node.Bool(AttrKey::kKeepdim);
  Value* y = b.Reduce(node.op, SourceOf(node.operands[0]), dims, keepdim);
  if (keepdim) return Reorder(b, y, *perm);
  // The remaining permutation, renumbered.
  Dims rest;
  for (int64_t dim : *perm) {
    if (std::find(dims.begin(), dims.end(), dim) != dims.end()) continue;
    rest.push_back(dim -
                   std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < dim; }));
  }
  return Reorder(b, y, rest);
}

Value* MoveThroughConcat(Node& node, Builder& b) {
  const Dims* perm = PermOf(node.operands[0]);
  if (perm == nullptr) return nullptr;
  std::vector<Value*> sources;
  for (const Value* operand : node.operands) {
    const Dims* own = PermOf(operand);
    if (own == nullptr || *own != *perm) return nullptr;
    sources.push_back(SourceOf(operand));
  }
  return b.Permute(b.Concat(std::move(sources), (*perm)[node.Int(AttrKey::kDim)]), *perm);
}

// Handles ops whose list attributes have one entry per dimension.
Value* MoveThroughDimWise(Node& node, Builder& b) {
  const Dims* perm = PermOf(node.operands[0]);
  if (perm == nullptr) return nullptr;
  ir::Attrs attrs = node.attrs;
  for (const auto& [key, value] : node.attrs.items()) {
    if (const auto* dims = std::get_if<Dims>(&value)) attrs.Set(key, Before(*perm, *dims));
  }
  return b.Permute(b.Emit(node.op, {SourceOf(node.operands[0])}, std::move(attrs)), *perm);
}

// Runs of dimensions that a reshape turns into each other: from[a.first, a.second) has as many
// elements as to[b.first, b.second).
struct Run {
  size_t from_begin, from_end;
  size_t to_begin, to_end;
};
std::vector<Run> RunsOf(const Dims& from, const Dims& to) {
  std::vector<Run> runs;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    Run run{i, i, j, j};
    int64_t left = 1;
    int64_t right = 1;
    do {
      if (i < from.size() && (left <= right || j == to.size())) {
        left *= from[i++];
      } else if (j < to.size()) {
        right *= to[j++];
      } else {
        return {};
      }
    } while (left != right);
    run.from_end = i;
    run.to_end = j;
    runs.push_back(run);
  }
  return runs;
}

// reshape(permute(x)) = permute(reshape(x)) if the dimensions of each run are neighbours before the
// permute too.
Value* MoveThroughReshape(Node& node, Builder& b) {
  const Dims* perm = PermOf(node.operands[0]);
  if (perm == nullptr || node.type().elements() == 0) return nullptr;
  const Dims& to = node.type().sizes;
  const std::vector<Run> runs = RunsOf(node.operands[0]->type.sizes, to);
  for (const Run& run : runs) {
    if (run.from_begin == run.from_end) return nullptr;
    for (size_t i = run.from_begin + 1; i < run.from_end; ++i) {
      if ((*perm)[i] != (*perm)[i - 1] + 1) return nullptr;
    }
  }
  // The runs in the order that their dimensions have before the permute.
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t c) {
    return (*perm)[runs[a].from_begin] < (*perm)[runs[c].from_begin];
  });
  Dims sizes;
  Dims new_perm(to.size());
  for (size_t index : order) {
    for (size_t j = runs[index].to_begin; j < runs[index].to_end; ++j) {
      new_perm[j] = static_cast<int64_t>(sizes.size());
      sizes.push_back(to[j]);
    }
  }
  return Reorder(b, b.Reshape(SourceOf(node.operands[0]), std::move(sizes)), new_perm);
}

Value* MergePermutes(Node& node, Builder& b) {
  const Dims* inner = PermOf(node.operands[0]);
  if (inner == nullptr) return nullptr;
  Dims perm = node.Ints(AttrKey::kPerm);
  for (int64_t& dim : perm) dim = (*inner)[dim];
  return Reorder(b, SourceOf(node.operands[0]), perm);
}

Value* Move(Node& node, Builder& b) {
  switch (node.op) {
    case OpKind::kPermute:
      return MergePermutes(node, b);
    case OpKind::kReshape:
      return MoveThroughReshape(node, b);
    case OpKind::kConcat:
      return MoveThroughConcat(node, b);
    case OpKind::kPad:
    case OpKind::kSlice:
      return MoveThroughDimWise(node, b);
    default:
      break;
  }
  if (ir::IsElementwise(node.op)) return MoveThroughElementwise(node, b);
  if (ir::Traits(node.op).op_class == ir::OpClass::kReduce) return MoveThroughReduce(node, b);
  return nullptr;
}

}  // namespace

absl::Status MovePermutes(ir::Graph& graph, const PassContext&) {
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    const size_t mark = rewriter.builder().Mark();
    Value* moved = Move(node, rewriter.builder());
    RETURN_IF_ERROR(rewriter.builder().status());
    if (moved == nullptr) {
      rewriter.builder().Rewind(mark);
      return ir::Visit::kKeep;
    }
    rewriter.Replace(node.results[0], moved);
    return ir::Visit::kDrop;
  });
}

}  // namespace hpu::compiler
