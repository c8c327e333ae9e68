#include "graph_compiler/contraction/attention/attention_factors.h"

namespace hpu::graph_compiler {

using llvm::Value;

TileA FactorRows::Tile(int count) const {
  TileA a;
  a.row_bases = {first};
  for (int r = 0; r < count; ++r) a.row_offsets.push_back(r * stride);
  a.k_stride = k_stride;
  return a;
}

MatrixSource QueryPanels::Source(Value* first, MemoryType rows, const int64_t* strides) const {
  if (type == PanelType::kF32) return {first, rows, strides[3], strides[2]};
  // Pairs of features lie together in memory, so dwords are copied.
  return {first, MemoryType::kF32, 1, strides[2] / 2};
}

Value* JoinHalves(IrEmitter& e, Value* low, Value* high) {
  llvm::Type* dwords = e.I32(e.lanes());
  Value* upper = e.b.CreateShl(e.b.CreateZExt(high, dwords), 16);
  return e.b.CreateBitCast(e.b.CreateOr(e.b.CreateZExt(low, dwords), upper), e.F32(e.lanes()));
}

}  // namespace hpu::graph_compiler
