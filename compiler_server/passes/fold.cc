#include "compiler_server/passes/fold.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "compiler_server/ir/evaluate.h"
#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

using ir::HostTensor;
using ir::Node;
using ir::OpKind;
using ir::Value;

bool IsExact(const HostTensor& tensor) {
  if (!IsInteger(tensor.dtype)) return true;
  constexpr double kLimit = 9007199254740992.0;  // 2^53
  return std::all_of(tensor.data.begin(), tensor.data.end(),
                     [](double value) { return std::fabs(value) < kLimit; });
}

// Whether the op multiplies integers in a row, whose products on the way a double may not hold.
bool MultipliesIntegers(const Node& node) {
  const bool multiplies = node.op == OpKind::kReduceProd || node.op == OpKind::kCumprod ||
                          node.op == OpKind::kScatterMul;
  return multiplies && IsInteger(node.type().dtype);
}

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), rewriter_(graph) {}

  absl::Status Run() {
    for (const ir::Constant& constant : graph_.constants()) {
      const ir::TensorType& type = constant.value->type;
      if (type.bytes() > kMaxFoldedBytes || !ir::HasHostArithmetic(type.dtype)) continue;
      HostTensor tensor = ir::FromBytes(type.dtype, type.sizes, constant.data);
      if (IsExact(tensor)) known_.emplace(constant.value, std::move(tensor));
    }
    return rewriter_.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
      if (TryEvaluate(node)) return Keeps(node) ? ir::Visit::kKeep : ir::Visit::kDrop;
      for (Value*& operand : node.operands) {
        if (operand != nullptr) operand = Materialize(operand);
      }
      return ir::Visit::kKeep;
    });
  }

  // Storages and mutations read folded values too.
  void Finish() {
    for (ir::Storage& storage : graph_.storages()) storage.value = Materialize(storage.value);
    for (ir::Mutation& mutation : graph_.mutations()) {
      mutation.value = Materialize(mutation.value);
    }
  }

 private:
  // Sources stay, because they are as cheap as a constant and smaller.
  static bool Keeps(const Node& node) { return node.operands.empty(); }

  bool TryEvaluate(const Node& node) {
    if (node.op == OpKind::kAten || node.results.size() != 1) return false;
    if (node.type().bytes() > kMaxFoldedBytes || MultipliesIntegers(node)) return false;
    std::vector<const HostTensor*> operands;
    for (const Value* operand : node.operands) {
      const auto found = operand == nullptr ? known_.end() : known_.find(operand);
      if (operand != nullptr && found == known_.end()) return false;
      operands.push_back(operand == nullptr ? nullptr : &found->second);
    }
    auto results = ir::EvaluateNode(node, operands);
    if (!results.ok() || !IsExact((*results)[0])) return false;
    known_.emplace(node.results[0], std::move((*results)[0]));
    return true;
  }

  // Makes a folded value readable for later nodes.
  Value* Materialize(Value* value) {
    const auto found = known_.find(value);
    const bool folded =
        found != known_.end() && value->producer != nullptr && !Keeps(*value->producer);
    if (!folded) return value;
    const auto made = made_.find(value);
    if (made != made_.end()) return made->second;
    const HostTensor& tensor = found->second;
    Value* replacement = nullptr;
    const auto same = [&](double element) { return element == tensor.data[0]; };
    if (!tensor.data.empty() && std::all_of(tensor.data.begin(), tensor.data.end(), same)) {
      replacement = rewriter_.builder().Full(tensor.data[0], tensor.dtype, tensor.sizes);
    } else {
      replacement = graph_.AddConstant(ir::Contiguous(value->type), ir::ToBytes(tensor));
    }
    made_.emplace(value, replacement);
    return replacement;
  }

  ir::Graph& graph_;
  ir::Rewriter rewriter_;
  std::unordered_map<const Value*, HostTensor> known_;  // only looked up, never iterated
  std::unordered_map<const Value*, Value*> made_;
};

}  // namespace

absl::Status FoldConstants(ir::Graph& graph, const PassContext&) {
  Folder folder(graph);
  RETURN_IF_ERROR(folder.Run());
  folder.Finish();
  return absl::OkStatus();
}

}  // namespace hpu::compiler
