// Copies nodes from one graph to another, on demand.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

class GraphCopier {
 public:
  GraphCopier(const ir::Graph& from, const std::string& name) : from_(from), to_(name) {
    to_.captured_nodes = from.captured_nodes;
  }

  void Map(const ir::Value* from, ir::Value* to) { copies_[from] = to; }

  // Returns the copy of the value. Its operands are copied first, in an order in which every value
  // is defined before it is used.
  ir::Value* Get(ir::Value* value);

  void Emit(ir::Node& node);

  ir::Graph& graph() { return to_; }

 private:
  ir::Value* Known(ir::Value* value);
  void Copy(const ir::Node& node);

  const ir::Graph& from_;
  ir::Graph to_;
  std::unordered_map<const ir::Value*, ir::Value*> copies_;
  std::unordered_set<const ir::Node*> done_;
};

}  // namespace hpu::compiler
