// Who reads a value, for passes that look from it towards the results. Of the graph as it was: a
// rewrite does not keep it up to date.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// Nodes whose results something needs, by what they read.
class Readers {
 public:
  explicit Readers(const ir::Graph& graph);

  const std::vector<ir::Node*>& Of(const ir::Value* value) const { return readers_[value->id]; }
  // What is returned or written to an input.
  bool LeavesGraph(const ir::Value* value) const { return leaves_[value->id]; }
  // The only reader, nullptr if there are several.
  ir::Node* Only(const ir::Value* value) const;
  size_t Position(const ir::Node* node) const { return positions_.at(node); }

 private:
  std::vector<std::vector<ir::Node*>> readers_;
  std::vector<bool> leaves_;
  std::unordered_map<const ir::Node*, size_t> positions_;
};

}  // namespace hpu::compiler
