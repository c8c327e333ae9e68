// Scheduled kernels as a recipe: code is generated (once for equal kernels), temporaries are
// placed, launches refer to their buffers.
#pragma once

#include <vector>

#include "synapse/emulator/graph_compiler/compiler.h"
#include "synapse/emulator/graph_compiler/dump.h"
#include "synapse/emulator/graph_compiler/fusion/row_groups.h"

namespace hpu::emulator {

absl::StatusOr<Recipe> EmitRecipe(const GraphDesc& graph, LoopGraph& loops,
                                  const std::vector<FusedKernel>& kernels,
                                  const CompileOptions& options, const Dump& dump);

}  // namespace hpu::emulator
