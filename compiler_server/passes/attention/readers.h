// The readers of each value, for passes that look from a value to the results. It describes the
// original graph: a rewrite does not update it.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// Nodes whose results are needed, by the values that they read.
class Readers {
 public:
  explicit Readers(const ir::Graph& graph);

  const std::vector<ir::Node*>& Of(const ir::Value* value) const { return readers_[value->id]; }
  // Whether the value is returned or written to an input.
  bool LeavesGraph(const ir::Value* value) const { return leaves_[value->id]; }
  // The only reader; nullptr if there are several.
  ir::Node* Only(const ir::Value* value) const;
  size_t Position(const ir::Node* node) const { return positions_.at(node); }

 private:
  std::vector<std::vector<ir::Node*>> readers_;
  std::vector<bool> leaves_;
  std::unordered_map<const ir::Node*, size_t> positions_;
};

}  // namespace hpu::compiler
