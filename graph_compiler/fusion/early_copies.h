// Control edges put copies into the graph's inputs and outputs after everything else, because that
// is how lowering orders the writes of mutated inputs. This pass moves such a copy to the place
// where the copied value is made, if no node notices the difference. There fusion lets the kernel
// that makes the value write it in place:
//
//   phase 0: t = update(x)   phase 1: y = copy(t), in the memory of x
//   =>   phase 0: t = update(x); y = copy(t)   =>   phase 0: y = update(x)
//
// A node notices if it reads that memory in a phase after the new one and up to the old one, or if
// it also writes that memory in one of the two phases or between them. Readers in the new phase
// itself come before the write, as always (import/phases.h).
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void AdvanceCopies(LoopGraph& graph);

}  // namespace hpu::graph_compiler
