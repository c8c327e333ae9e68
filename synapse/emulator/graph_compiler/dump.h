// GRAPH_VISUALIZATION: the stages of a compilation as text files <dir>/<graph>-<stage>.txt.
#pragma once

#include <string>

#include "synapse/emulator/graph_compiler/loop_graph.h"
#include "synapse/emulator/recipe/recipe.h"

namespace hpu::emulator {

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

}  // namespace hpu::emulator
