// The weight of a key in attention, before it is divided by the sum of its row.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// exp(x) of scores less the largest of their row, f32 in `lanes` lanes (1: a scalar). 0 where it
// would be a denormal: beside a weight of 1 it changes no sum, and CPUs take about 150 cycles for
// each product with one (models hide keys by adding -100). At most exp(88), which only a row of
// hidden keys reaches, whose scores of 1e9 the gradient's rounding moves.
llvm::Value* EmitWeight(IrEmitter& e, llvm::Value* x, int lanes);

}  // namespace hpu::graph_compiler
