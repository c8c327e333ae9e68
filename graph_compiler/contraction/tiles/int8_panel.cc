#include "graph_compiler/contraction/tiles/int8_panel.h"

#include "graph_compiler/contraction/tiles/int8.h"

namespace hpu::graph_compiler {

using llvm::Value;

void EmitIntegerPanel(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to, Value* cols) {
  const int64_t per_dword = KPerStep(panel.packed_type);
  const int64_t size = PackedSize(panel.packed_type);
  const int64_t row_bytes = panel.panel_cols * 4;
  const int64_t steps = panel.k() / per_dword;
  std::vector<int64_t> k_sizes = panel.k_sizes;
  k_sizes.back() = panel.fastest_k;
  llvm::Type* packed = e.b.getIntNTy(static_cast<unsigned>(8 * size));
  e.For(e.Int(0), e.Int(steps), 1, [&](Value* step) {
    e.For(e.Int(0), e.Int(panel.panel_cols), 1, [&](Value* col) {
      Value* dword = e.Address(to, e.Add(e.Mul(step, row_bytes), e.Mul(col, 4)));
      for (int64_t i = 0; i < per_dword; ++i) {
        const Values k = e.Decompose(e.Add(e.Mul(step, per_dword), i), k_sizes);
        Value* exists = e.b.CreateICmpSLT(col, cols);
        if (panel.fills_up_k()) {
          exists = e.b.CreateAnd(exists, e.b.CreateICmpSLT(k.back(), e.Int(panel.k_sizes.back())));
        }
        // A missing element reads the first element instead.
        Value* place = e.Add(e.Dot(k, panel.k_strides), e.Mul(col, panel.col_stride));
        Value* byte = e.b.CreateAlignedLoad(
            e.b.getInt8Ty(), e.Address(from, e.b.CreateSelect(exists, place, e.Int(0))),
            llvm::Align(1));
        Value* element = e.b.CreateSelect(exists, byte, e.b.getInt8(0));
        e.b.CreateAlignedStore(e.b.CreateSExt(element, packed), e.Address(dword, i * size),
                               llvm::Align(static_cast<uint64_t>(size)));
      }
    });
  });
  const int lanes = e.lanes();
  Value* ones = e.Splat(e.b.getInt32(ZeroDword(panel.packed_type, 1)), lanes);
  ones = e.b.CreateBitCast(ones, e.F32(lanes));
  for (int64_t first = 0; first < row_bytes; first += lanes * 4) {
    Value* column = e.Address(to, first);
    const Values sum =
        e.For(e.Int(0), e.Int(steps), 1, {e.Zero(lanes)}, [&](Value* step, const Values& carried) {
          Value* row = e.LoadF32(e.Address(column, e.Mul(step, row_bytes)), lanes);
          return Values{e.DotIntegers(ones, row, carried[0])};
        });
    e.StoreF32(e.Address(column, steps * row_bytes), sum[0]);
  }
}

}  // namespace hpu::graph_compiler
