// A reduction of many elements to few results is split in two, so that all threads take part:
//
//   s = sum(x over 1000000)   =>   p = sum(x as 40 x 25000, over 25000); s = sum(p over 40)
//
// The cut depends on shapes alone, so results do not depend on the number of threads.
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void SplitReductions(LoopGraph& graph);

}  // namespace hpu::graph_compiler
