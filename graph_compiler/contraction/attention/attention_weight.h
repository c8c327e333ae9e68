// The weight of a key in attention, before it is divided by the sum of its row.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// Returns exp(x), where x is a score less the largest score of its row, f32 in `lanes` lanes (1: a
// scalar). The result is 0 where it would be a denormal: beside a weight of 1 it changes no sum,
// and CPUs take about 150 cycles for each product with a denormal (models hide keys by adding
// -100). The result is at most exp(88). Only a row of hidden keys reaches that, because the
// gradient's rounding moves its scores of 1e9.
llvm::Value* EmitWeight(IrEmitter& e, llvm::Value* x, int lanes);

}  // namespace hpu::graph_compiler
