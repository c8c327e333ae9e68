// Builds a loop kernel from a fused group: members become passes; in-group values become
// accumulators, scratch rows or plain SSA values; dimensions are put in the best order for vector
// code.
#pragma once

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/fusion/row_groups.h"

namespace hpu::graph_compiler {

// `must_be_stored(value)` says whether the value is needed outside the group.
LoopKernel BuildLoopKernel(const RowGroup& group,
                           const std::function<bool(ValueId)>& must_be_stored);

// Fills in `loop` of all loop kernels of a finished graph.
void BuildLoopKernels(FusionState& state, std::vector<FusedKernel>& kernels);

}  // namespace hpu::graph_compiler
