// Copies into the graph's inputs and outputs that control edges put behind everything else, as
// lowering orders the writes of mutated inputs, happen where the copied value is made if nobody
// sees the difference. There fusion lets the kernel that makes the value write it in place:
//
//   phase 0: t = update(x)   phase 1: y = copy(t), in the memory of x
//   =>   phase 0: t = update(x); y = copy(t)   =>   phase 0: y = update(x)
//
// The difference is seen by whoever reads that memory in a phase after the one and up to the other,
// and by other writers of it in either or between. Readers in the phase itself come before the
// write, as always (import/phases.h).
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void AdvanceCopies(LoopGraph& graph);

}  // namespace hpu::graph_compiler
