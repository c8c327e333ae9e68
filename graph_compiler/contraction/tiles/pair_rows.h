// Copies rows of bf16 so that pairs of columns lie together, as AVX512_BF16 and AMX read A.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// The destination of rows: dense, a multiple of two elements apart.
struct PairRowsTarget {
  llvm::Value* address = nullptr;
  int64_t row_stride = 0;  // elements
};

// Copies columns [0, cols) of `rows` rows of `a`, whose element (0, 0) lies at `from`; zeros follow
// up to `filled`, an even number, and up to 31 elements beyond. Needs vectors of 32 bf16
// (AVX512_BF16).
void EmitPairRows(IrEmitter& e, const MatrixAccess& a, int64_t cols, int64_t filled,
                  llvm::Value* from, PairRowsTarget to, llvm::Value* rows);

}  // namespace hpu::graph_compiler
