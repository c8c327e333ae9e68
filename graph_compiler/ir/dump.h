// GRAPH_VISUALIZATION writes the stages of a compilation to text files <dir>/<graph>-<stage>.txt.
#pragma once

#include <string>

#include "graph_compiler/ir/loop_graph.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

class Dump {
 public:
  // An empty directory switches dumping off.
  Dump(const std::string& directory, const std::string& graph_name);
  bool enabled() const { return !prefix_.empty(); }
  void Write(const std::string& stage, const LoopGraph& graph) const;
  void Write(const std::string& stage, const Recipe& recipe) const;
  void WriteText(const std::string& stage, const std::string& text,
                 const std::string& extension = "txt") const;

 private:
  std::string prefix_;
};

}  // namespace hpu::graph_compiler
