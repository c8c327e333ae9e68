// Lets a pass change a graph in one walk over the order, in which each node may be kept, dropped or
// preceded by new nodes, and values may be replaced by others. The cost is linear in the graph.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler_server/ir/build.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// Returns the node that made the value if it is of this op, else nullptr.
inline const Node* MadeBy(const Value* value, OpKind op) {
  return value->producer != nullptr && value->producer->op == op ? value->producer : nullptr;
}

enum class Visit { kKeep, kDrop };

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  // The end of every walk: storages and mutations follow the replacements. After a failed walk the
  // graph must not be used.
  ~Rewriter();
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // Emits in front of the node that is being visited.
  Builder& builder() { return builder_; }
  // From now on `to` is used where `from` was. Both have equal dtype and sizes.
  void Replace(Value* from, Value* to);
  static Value* Resolve(Value* value);

  // visit: absl::StatusOr<Visit>(Node&); operands are resolved before the call.
  template <typename F>
  absl::Status Run(F visit) {
    for (Node* node : nodes_) {
      Enter(*node);
      auto verdict = visit(*node);
      if (!verdict.ok()) return verdict.status();
      if (*verdict == Visit::kKeep) order_.push_back(node);
    }
    return builder_.status();
  }

 private:
  void Enter(Node& node);

  Graph& graph_;
  std::vector<Node*> nodes_;  // the order before the walk
  std::vector<Node*> order_;  // the order after the walk
  std::vector<Value*> replaced_;
  Builder builder_;
};

}  // namespace hpu::ir
