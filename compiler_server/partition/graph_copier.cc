#include "compiler_server/partition/graph_copier.h"

#include <memory>
#include <utility>
#include <vector>

namespace hpu::compiler {

using ir::Node;
using ir::Value;
using ir::ValueKind;

Value* GraphCopier::Get(Value* value) {
  if (value->kind == ValueKind::kResult && !copies_.contains(value)) Emit(*value->producer);
  return Known(value);
}

void GraphCopier::Emit(Node& node) {
  std::vector<Node*> pending = {&node};
  while (!pending.empty()) {
    Node* next = pending.back();
    if (done_.contains(next)) {
      pending.pop_back();
      continue;
    }
    const size_t before = pending.size();
    for (Value* operand : next->operands) {
      if (operand == nullptr || copies_.contains(operand)) continue;
      if (operand->kind == ValueKind::kResult) pending.push_back(operand->producer);
    }
    if (pending.size() > before) continue;
    pending.pop_back();
    Copy(*next);
  }
}

Value* GraphCopier::Known(Value* value) {
  const auto known = copies_.find(value);
  if (known != copies_.end()) return known->second;
  HPU_CHECK(value->kind == ValueKind::kConstant, "a value that is in neither part");
  return copies_[value] = to_.AddConstant(value->type, from_.constants()[value->index].data);
}

void GraphCopier::Copy(const Node& node) {
  std::vector<Value*> operands;
  for (Value* operand : node.operands) {
    operands.push_back(operand == nullptr ? nullptr : Known(operand));
  }
  std::vector<ir::TensorType> types;
  for (const Value* result : node.results) types.push_back(result->type);
  Node* copy = to_.AddNode(node.op, std::move(operands), node.attrs, std::move(types));
  if (node.aten != nullptr) copy->aten = std::make_unique<ir::AtenCall>(*node.aten);
  copy->source = to_.AddSource(from_.source(node));
  copy->origin = node.origin;
  // A result may already have a counterpart: the saved value of the forward.
  for (size_t i = 0; i < node.results.size(); ++i) {
    copies_.try_emplace(node.results[i], copy->results[i]);
  }
  done_.insert(&node);
}

}  // namespace hpu::compiler
