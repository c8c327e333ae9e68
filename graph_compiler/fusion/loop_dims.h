// Dimensions of a loop kernel: rows and columns are sorted by the strides that walk them, merged
// where they are walked as one, and the dimension for vectors is chosen.
#pragma once

#include "graph_compiler/codegen/loop_kernel.h"

namespace hpu::graph_compiler {

// `domain` is what the accesses of the passes refer to, its first `num_rows` dimensions are rows.
// Operands and scratch areas are numbered (LoopKernel::operands). Sets outer, inner, vector,
// vector_is_row and vector_chunk.
void OrderDims(LoopKernel& kernel, const Shape& domain, size_t num_rows);

}  // namespace hpu::graph_compiler
