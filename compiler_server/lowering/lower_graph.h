// Turns a graph after the pass pipeline into a function of a Program, with its Synapse node graphs
// ready to compile.
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
  int64_t least_part_bytes = kLeastPartBytes;  // of each part of a function that is cut (parts.h)
};

struct LoweredRecipe {
  std::unique_ptr<SynGraph> graph;
  uint32_t function = 0;  // the number of the function in the program
  uint32_t step = 0;      // the number of its LaunchStep in the function's steps
};

struct LoweredProgram {
  // It is complete except for `recipes` and LaunchStep::recipe.
  Program program;
  std::vector<LoweredRecipe> recipes;
};

// Appends the graph as function `name` of the program. `functions` must outlive `lowered`. Returns
// UNIMPLEMENTED if some node can run neither in a recipe nor by ATen; then `lowered` must not be
// used.
absl::Status LowerGraph(const ir::Graph& graph, const SynapseFunctions& functions,
                        const LoweringOptions& options, std::string name, LoweredProgram* lowered);

}  // namespace hpu::compiler
