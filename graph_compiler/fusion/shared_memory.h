// Decides which kernels may write over what they read (a persistent output placed over an input, or
// a temporary that takes the memory of another).
#pragma once

#include "graph_compiler/fusion/fusion_state.h"
#include "graph_compiler/fusion/row_groups.h"

namespace hpu::graph_compiler {

// Returns whether `kernel` may write `output` over `input`: both start at the same address, and
// every element is read only by the iteration that overwrites it, before it does so.
bool MayShareMemory(const LoopGraph& graph, const FusedKernel& kernel, ValueId input,
                    ValueId output);

// Returns whether a kernel made of the node (or the group) would share memory correctly among
// everything that it reads and writes.
bool SharesRightly(const FusionState& state, const Node& node);
bool SharesRightly(const FusionState& state, const RowGroup& group);

}  // namespace hpu::graph_compiler
