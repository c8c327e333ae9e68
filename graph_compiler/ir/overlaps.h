// Finds which persistent values share memory.
#pragma once

#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// For each value, returns the other persistent values that share at least one byte with it, in
// ascending order.
std::vector<std::vector<ValueId>> FindOverlaps(const LoopGraph& graph);

}  // namespace hpu::graph_compiler
