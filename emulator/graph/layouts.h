// Layout strings of nodes (reference 3.4): one letter per dimension, fastest first, one string per
// operand. "" and null specify nothing.
//
// Kinds with an order of their own compute in it: operands whose string names another order are
// transposed before the node, and results after it. For other kinds a string only names the
// dimensions; operands that name the same dimensions in different orders contradict each other and
// are refused.
#pragma once

#include "emulator/graph/graph.h"

namespace hpu::emulator {

// Returns synInvalidArgument if a string's length differs from the operand's rank or a letter comes
// twice, synFail if the letters are not those of the kind, and synUnsupported if orders contradict
// each other.
synStatus CheckLayouts(const Node& node);

// Appends `described`, the description of `node`, to the graph, with the transposes that its
// layouts need.
void AddInNativeLayout(const Node& node, NodeDesc described, GraphDesc* graph);

}  // namespace hpu::emulator
