// Orders the dimensions of a loop kernel: rows and columns are sorted by the strides that walk them
// and merged where they are walked as one, and the dimension for vectors is chosen.
#pragma once

#include "graph_compiler/codegen/loop_kernel.h"

namespace hpu::graph_compiler {

// `domain` is the domain of the accesses of the passes; its first `num_rows` dimensions are rows.
// Operands and scratch areas must be numbered (LoopKernel::operands). Sets outer, inner, vector,
// vector_is_row and vector_chunk.
void OrderDims(LoopKernel& kernel, const Shape& domain, size_t num_rows);

}  // namespace hpu::graph_compiler
