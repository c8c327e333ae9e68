// The factors of attention's products as they lie in memory.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler {

// The first factor: rows that lie `stride` bytes apart.
struct FactorRows {
  llvm::Value* first = nullptr;
  int64_t stride = 0;
  int64_t k_stride = 4;
  TileA Tile(int count) const;
};

// The second factor: queries, or gradients of results, transposed in panels of `cols` queries. A
// row of a panel is a step of the product: a feature as f32, or a pair of features as bf16.
struct QueryPanels {
  PanelType type = PanelType::kF32;
  int64_t cols = 0;
  int64_t features = 0;
  int64_t steps() const { return features / KPerStep(type); }
  TileB Tile(llvm::Value* panel) const {
    return {.base = panel, .k_stride = cols * 4, .type = type};
  }
  // Returns where the columns of a panel lie in memory: rows of elements of `rows`, of which
  // strides[2] and strides[3] are the last two strides.
  MatrixSource Source(llvm::Value* first, MemoryType rows, const int64_t* strides) const;
};

// Returns dwords of two vectors of 16 bits, the first of them in the low halves.
llvm::Value* JoinHalves(IrEmitter& e, llvm::Value* low, llvm::Value* high);

}  // namespace hpu::graph_compiler
