// Explicit roundings (kRoundTo) in the epilogue of a product that its stores do again are left out:
// minimum, maximum, sign and absolute value give the same whether what they take is rounded before,
// or their result is rounded after, as long as all they take are numbers of the type. The batch
// norm and ReLU6 behind a bf16 convolution round once then. Zeros may change their sign.
//
// Loops keep theirs: they may still become one kernel with a reader, which gets what was not
// rounded.
#pragma once

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

void RoundOnce(LoopGraph& graph);

}  // namespace hpu::graph_compiler
