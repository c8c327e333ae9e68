#include "compiler_server/passes/memory.h"

#include <unordered_map>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/ir/views.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::TensorType;
using ir::Value;

Dims Permuted(const Dims& dims, const Dims& perm) {
  Dims result;
  for (int64_t dim : perm) result.push_back(dims[dim]);
  return result;
}

Value* AsStrided(Builder& b, Value* memory, Dims sizes, Dims strides) {
  const TensorType type = ir::Contiguous(memory->type.dtype, std::move(sizes));
  return b.Emit(OpKind::kAsStrided, {memory},
                {{AttrKey::kStrides, std::move(strides)}, {AttrKey::kOffset, int64_t{0}}}, &type);
}

// The elements, in row-major order, of a value with other strides.
Value* RowMajor(Builder& b, Value* value) {
  const TensorType& type = value->type;
  Dims perm;
  if (ir::IsDense(type, &perm)) {
    Dims sizes = Permuted(type.sizes, perm);
    Dims strides = RowMajorStrides(sizes);
    return b.Permute(AsStrided(b, value, std::move(sizes), std::move(strides)),
                     ir::InversePermutation(perm));
  }
  // Repeated elements (stride 0) are read once.
  Dims sizes = type.sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (type.strides[i] == 0) sizes[i] = 1;
  }
  return b.Expand(AsStrided(b, value, sizes, type.strides), type.sizes);
}

class Explicit {
 public:
  explicit Explicit(ir::Graph& graph) : graph_(graph), rewriter_(graph) {}

  absl::Status Run() {
    RETURN_IF_ERROR(rewriter_.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
      if (node.op == OpKind::kAten || node.op == OpKind::kAsStrided) return ir::Visit::kKeep;
      for (Value*& operand : node.operands) {
        // The first operand of as_strided_scatter is the memory that it writes into.
        const bool memory = node.op == OpKind::kAsStridedScatter && operand == node.operands[0];
        if (operand != nullptr && !memory) operand = Read(operand);
      }
      return ir::Visit::kKeep;
    }));
    for (ir::Storage& storage : graph_.storages()) MakeRowMajor(storage);
    for (ir::Mutation& mutation : graph_.mutations()) MakeDense(mutation);
    return rewriter_.builder().status();
  }

 private:
  Value* Read(Value* value) {
    if (value->type.contiguous()) return value;
    const auto [place, is_new] = row_major_.try_emplace(value, nullptr);
    if (is_new) place->second = RowMajor(rewriter_.builder(), value);
    return place->second;
  }

  void MakeRowMajor(ir::Storage& storage) {
    storage.value = Read(storage.value);
    Dims perm;
    if (storage.type.contiguous() || !ir::IsDense(storage.type, &perm)) return;
    storage.value = rewriter_.builder().Permute(storage.value, perm);
    storage.type = ir::Contiguous(storage.value->type);
  }

  void MakeDense(ir::Mutation& mutation) {
    mutation.value = Read(mutation.value);
    TensorType& type = mutation.view.type;
    Dims perm;
    if (type.contiguous() || !ir::IsDense(type, &perm)) return;
    mutation.value = rewriter_.builder().Permute(mutation.value, perm);
    type = ir::Contiguous(mutation.value->type);
  }

  ir::Graph& graph_;
  ir::Rewriter rewriter_;
  std::unordered_map<Value*, Value*> row_major_;  // only looked up, never iterated
};

}  // namespace

namespace {

// Copies x in row-major order, by a node for a recipe, or by a call if no recipe holds it.
Value* Copy(Builder& b, const PassContext& context, Value* x) {
  const TensorType type = ir::Contiguous(x->type);
  const size_t mark = b.Mark();
  Node* copy = b.EmitNode(OpKind::kReshape, {x}, {}, &type);
  if (context.accept(*copy).ok()) return copy->result();
  b.Rewind(mark);
  copy = b.EmitNode(OpKind::kAten, {x}, {}, &type);
  copy->aten = std::make_unique<ir::AtenCall>();
  copy->aten->target = "aten.clone.default";
  copy->aten->args = {{"self", {TensorArgument{0}}},
                      {"memory_format", {EnumArgument{"contiguous_format"}}}};
  const std::optional<ir::RootView> lies = ir::FindRootView(x, ir::IsView);
  copy->aten->strides = {lies.has_value() ? lies->view.type.strides : x->type.strides};
  copy->aten->reason = "a copy for a call that runs eagerly; no recipe holds it";
  return copy->result();
}

}  // namespace

absl::Status LayOutEagerOperands(ir::Graph& graph, const PassContext& context) {
  ir::Rewriter rewriter(graph);
  Builder& b = rewriter.builder();
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    if (node.op != OpKind::kAten) return ir::Visit::kKeep;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      Value* x = node.operands[i];
      const Dims& strides = node.aten->strides[i];
      const std::optional<ir::RootView> lies = ir::FindRootView(x, ir::IsView);
      if (lies.has_value() && ir::LiesAs(lies->view.type, strides)) continue;
      Dims perm;
      if (!ir::IsDense({x->type.dtype, x->type.sizes, strides}, &perm)) continue;
      if (!x->type.contiguous()) x = RowMajor(b, x);
      node.operands[i] =
          b.Permute(Copy(b, context, b.Permute(x, perm)), ir::InversePermutation(perm));
    }
    return ir::Visit::kKeep;
  });
}

absl::Status MakeMemoryExplicit(ir::Graph& graph, const PassContext&) {
  return Explicit(graph).Run();
}

}  // namespace hpu::compiler
