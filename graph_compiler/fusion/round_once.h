// An explicit rounding (kRoundTo) in the epilogue of a product is left out if the epilogue's stores
// do the same rounding again. Minimum, maximum, sign and absolute value give the same result if
// their arguments are rounded before or their result is rounded after, as long as all their
// arguments can be represented in the type. The batch norm and ReLU6 after a bf16 convolution then
// round once. Zeros may change their sign.
//
// Loops keep their roundings: a loop may still become one kernel with a reader, which would get the
// unrounded value.
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void RoundOnce(LoopGraph& graph);

}  // namespace hpu::graph_compiler
