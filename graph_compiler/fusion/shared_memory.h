// Kernels that write over what they read (a persistent output placed over an input, or a temporary
// that takes the memory of another).
#pragma once

#include "graph_compiler/fusion/fusion_state.h"
#include "graph_compiler/fusion/row_groups.h"

namespace hpu::graph_compiler {

// Whether `kernel` may write `output` over `input`: both start at the same address, and every
// element is read by the iteration that overwrites it, before it does, and by no other.
bool MayShareMemory(const LoopGraph& graph, const FusedKernel& kernel, ValueId input,
                    ValueId output);

// Whether a kernel made of the node (or the group) would share memory rightly among all it reads
// and writes.
bool SharesRightly(const FusionState& state, const Node& node);
bool SharesRightly(const FusionState& state, const RowGroup& group);

}  // namespace hpu::graph_compiler
