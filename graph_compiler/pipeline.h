// The passes that a graph goes through between import and emission: their table and the one
// function that runs them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph_compiler/fusion/row_groups.h"
#include "graph_compiler/ir/compile_options.h"
#include "graph_compiler/ir/dump.h"
#include "graph_compiler/plan/prologue.h"

namespace hpu::graph_compiler {

struct Compilation {
  LoopGraph graph;
  std::vector<FusedKernel> kernels;  // kernels of the graph's nodes, once they are formed
  Prologue prologue;
};

struct Pass {
  std::string_view name;  // "row-groups"
  absl::Status (*run)(Compilation& compilation);
  bool optional = false;  // results are right without this pass
};

// The passes in the order in which they run.
std::span<const Pass> Pipeline();

// Errors carry the name of the pass. Returns INVALID_ARGUMENT if the options switch off anything
// that is not an optional pass.
absl::Status RunPipeline(Compilation& compilation, const CompileOptions& options, const Dump& dump);

}  // namespace hpu::graph_compiler
