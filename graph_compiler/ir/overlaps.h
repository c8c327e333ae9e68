// Which persistent values share memory.
#pragma once

#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// By value: the other persistent values that some byte of it belongs to as well, in rising order.
std::vector<std::vector<ValueId>> FindOverlaps(const LoopGraph& graph);

}  // namespace hpu::graph_compiler
