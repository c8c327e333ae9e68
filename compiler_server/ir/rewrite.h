// How passes change a graph: one walk over the order, in which each node may be kept, dropped, or
// preceded by new nodes, and values replaced by others. Linear in the graph.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler_server/ir/build.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

enum class Visit { kKeep, kDrop };

class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  // Every walk ends here: storages and mutations follow their replacements. After a failed walk the
  // graph is not to be used.
  ~Rewriter();
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  // Emits before the node that is being visited.
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
  std::vector<Node*> nodes_;  // the order as it was
  std::vector<Node*> order_;  // the order as it will be
  std::vector<Value*> replaced_;
  Builder builder_;
};

}  // namespace hpu::ir
