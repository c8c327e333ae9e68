#include "compiler_server/passes/attention/readers.h"

#include <algorithm>

namespace hpu::compiler {

using ir::Node;
using ir::OpKind;
using ir::Value;

Readers::Readers(const ir::Graph& graph)
    : readers_(graph.value_count()), leaves_(graph.value_count(), false) {
  std::vector<bool> needed(graph.value_count(), false);
  for (const ir::Storage& storage : graph.storages()) leaves_[storage.value->id] = true;
  for (const ir::Mutation& mutation : graph.mutations()) leaves_[mutation.value->id] = true;
  needed = leaves_;
  const std::vector<Node*>& nodes = graph.nodes();
  for (size_t i = nodes.size(); i-- > 0;) {
    Node* node = nodes[i];
    positions_[node] = i;
    const bool wanted = std::any_of(node->results.begin(), node->results.end(),
                                    [&](const Value* result) { return needed[result->id]; });
    if (!wanted && node->op != OpKind::kAten) continue;
    for (size_t j = 0; j < node->operands.size(); ++j) {
      const Value* operand = node->operands[j];
      if (operand == nullptr) continue;
      needed[operand->id] = true;
      std::vector<Node*>& readers = readers_[operand->id];
      if (readers.empty() || readers.back() != node) readers.push_back(node);
    }
  }
}

Node* Readers::Only(const Value* value) const {
  const std::vector<Node*>& readers = Of(value);
  return readers.size() == 1 && !LeavesGraph(value) ? readers[0] : nullptr;
}

}  // namespace hpu::compiler
