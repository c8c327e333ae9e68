// A graph after the pass pipeline -> a function of a Program with its Synapse node graphs, ready to
// compile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/parts.h"
#include "compiler_server/lowering/syn_graph.h"
#include "program/program.h"
#include "synapse/loader.h"

namespace hpu::compiler {

struct LoweringOptions {
  synDeviceType device = synDeviceGaudi2;
  bool deterministic = false;
  bool inference = true;                       // weights stay the same from call to call
  int64_t least_part_bytes = kLeastPartBytes;  // of a function that is cut (parts.h)
};

struct LoweredRecipe {
  std::unique_ptr<SynGraph> graph;
  uint32_t function = 0;  // the program's
  uint32_t step = 0;      // its LaunchStep in the function's steps
};

struct LoweredProgram {
  // Complete but for `recipes` and LaunchStep::recipe.
  Program program;
  std::vector<LoweredRecipe> recipes;
};

// Appends the graph as function `name` of the program. `functions` must outlive `lowered`.
// UNIMPLEMENTED: some node can run neither in a recipe nor by ATen; `lowered` is not to be used
// then.
absl::Status LowerGraph(const ir::Graph& graph, const SynapseFunctions& functions,
                        const LoweringOptions& options, std::string name, LoweredProgram* lowered);

}  // namespace hpu::compiler
