// What happens to a graph between import and emission: a table of passes and the one door through
// which they run.
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
  std::vector<FusedKernel> kernels;  // of the graph's nodes, once they are formed
  Prologue prologue;
};

struct Pass {
  std::string_view name;  // "row-groups"
  absl::Status (*run)(Compilation& compilation);
  bool optional = false;  // results are right without it
};

// In order.
std::span<const Pass> Pipeline();

// Errors carry the pass's name. INVALID_ARGUMENT: options switch off what is no optional pass.
absl::Status RunPipeline(Compilation& compilation, const CompileOptions& options, const Dump& dump);

}  // namespace hpu::graph_compiler
