// Turns scheduled kernels into a recipe: code is generated (once for equal kernels), temporaries
// are placed, and launches refer to their buffers.
#pragma once

#include <vector>

#include "graph_compiler/ir/compile_options.h"
#include "graph_compiler/ir/dump.h"
#include "graph_compiler/ir/graph_desc.h"
#include "graph_compiler/plan/prologue.h"

namespace hpu::graph_compiler {

absl::StatusOr<Recipe> EmitRecipe(const GraphDesc& graph, LoopGraph& loops,
                                  const std::vector<FusedKernel>& kernels, const Prologue& prologue,
                                  const CompileOptions& options, const Dump& dump);

}  // namespace hpu::graph_compiler
