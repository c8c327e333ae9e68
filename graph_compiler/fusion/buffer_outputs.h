// Some persistent outputs cannot be written where their node stands, because the memory they share
// is still needed. They go through a temporary that is copied at the end of their phase:
//
//   y = transpose(x), in the memory of x    =>    t = transpose(x); y = copy(t)
//
// This is decided node by node before fusion, for a node that reads what it overwrites other than
// element for element, and for nodes that wait for each other in a circle. Fusion then makes no
// kernel that would need more buffers (shared_memory.h, FusionState::Merge).
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void BufferOutputs(LoopGraph& graph);

}  // namespace hpu::graph_compiler
