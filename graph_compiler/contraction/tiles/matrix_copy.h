// Copies a strided matrix of a float type into row-major f32: packing of B panels, staging of A
// operands whose k stride is not 1, widening of narrow types. It can also copy elements of two
// bytes unchanged.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"

namespace hpu::graph_compiler {

struct MatrixSource {
  llvm::Value* base = nullptr;  // address of element (0, 0)
  MemoryType type = MemoryType::kF32;
  int64_t row_stride = 0;  // elements
  int64_t col_stride = 0;
};

struct MatrixTarget {
  llvm::Value* base = nullptr;
  int64_t row_stride = 0;   // elements; columns are contiguous
  int64_t padded_cols = 0;  // columns from `cols` up to here are set to 0; 0 = no columns are
  MemoryType type = MemoryType::kF32;  // kBF16, if the source is too, keeps all bits
};

// Copies target[r][c] = source(r, c) for r < rows, c < cols (cols >= 1). Contiguous rows or columns
// of the source are read by vectors; columns are transposed in registers. Nothing beyond cols and
// padded_cols is written.
void EmitMatrixCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target,
                    llvm::Value* rows, llvm::Value* cols);

// Copies target[r][p] = {source(r, 2p), source(r, 2p + 1)} for r < rows: dwords that join two
// columns of bf16, the even one in the low half. cols must be at least 1; an odd last column gets a
// zero as its partner. Loops over columns are unrolled.
void EmitPairCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target,
                  llvm::Value* rows, int64_t cols);

}  // namespace hpu::graph_compiler
