#include "compiler_server/ir/rewrite.h"

namespace hpu::ir {

Rewriter::Rewriter(Graph& graph) : graph_(graph), nodes_(graph.nodes()), builder_(graph, &order_) {
  order_.reserve(nodes_.size());
}

Rewriter::~Rewriter() {
  graph_.SetOrder(std::move(order_));
  for (Storage& storage : graph_.storages()) storage.value = Resolve(storage.value);
  for (Mutation& mutation : graph_.mutations()) mutation.value = Resolve(mutation.value);
  for (Value* value : replaced_) value->replacement = nullptr;
}

void Rewriter::Replace(Value* from, Value* to) {
  to = Resolve(to);
  if (from == to) return;
  HPU_CHECK(from->replacement == nullptr, "a value is replaced once");
  from->replacement = to;
  replaced_.push_back(from);
}

Value* Rewriter::Resolve(Value* value) {
  while (value->replacement != nullptr) value = value->replacement;
  return value;
}

void Rewriter::Enter(Node& node) {
  for (Value*& operand : node.operands) {
    if (operand != nullptr) operand = Resolve(operand);
  }
  builder_.SetContext(node.source, node.origin);
}

}  // namespace hpu::ir
