#include "synapse/emulator/graph_compiler/contraction/packing.h"

#include <algorithm>

#include "synapse/emulator/graph_compiler/contraction/panel_copy.h"
#include "synapse/emulator/graph_compiler/contraction/tiling.h"

namespace hpu::emulator {

using llvm::Value;

DenseBatch DenseDimensions(const std::vector<int64_t>& batch, const std::vector<int64_t>& strides) {
  DenseBatch dense;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (strides[i] == 0 || batch[i] == 1) continue;
    dense.sizes.push_back(batch[i]);
    dense.strides.push_back(strides[i]);
    dense.count *= batch[i];
  }
  return dense;
}

std::vector<int64_t> DenseBatchStrides(const std::vector<int64_t>& batch,
                                       const std::vector<int64_t>& strides, int64_t* count) {
  std::vector<int64_t> dense(batch.size(), 0);
  *count = 1;
  for (size_t i = batch.size(); i-- > 0;) {
    if (strides[i] == 0 || batch[i] == 1) continue;
    dense[i] = *count;
    *count *= batch[i];
  }
  return dense;
}

PackedOperand EmitPanelPacking(KernelCache& cache, const std::vector<int64_t>& batch,
                               const MatrixAccess& b, int64_t k, int64_t n, PanelFormat format) {
  const DenseBatch dense = DenseDimensions(batch, b.batch_strides);
  const int64_t panels = CeilDiv(n, format.panel_cols);
  const int64_t source_size = MemoryTypeSize(b.type);
  PanelCopy copy;
  copy.type = b.type;
  copy.packed_type = format.packed_type;
  copy.panel_cols = format.panel_cols;
  copy.col_stride = b.col_stride;
  copy.k_sizes = format.outer_k_sizes;
  copy.k_sizes.push_back(k);
  copy.k_strides = format.outer_k_strides;
  copy.k_strides.push_back(b.row_stride);

  KernelKey key("pack_panels");
  key.Add(dense.sizes).Add(dense.strides).Add(b.type).Add(b.row_stride).Add(b.col_stride);
  key.Add(k).Add(n).Add(format.panel_cols).Add(format.packed_type);
  key.Add(format.outer_k_sizes).Add(format.outer_k_strides);
  key.Add(cache.module().target().f32_lanes);  // the bf16 forms join halves of whole vectors

  PackedOperand packed;
  packed.source = b.buffer;
  int64_t last = (n - 1) * b.col_stride;
  for (size_t i = 0; i < dense.sizes.size(); ++i) last += (dense.sizes[i] - 1) * dense.strides[i];
  for (size_t i = 0; i < copy.k_sizes.size(); ++i) {
    last += (copy.k_sizes[i] - 1) * copy.k_strides[i];
  }
  packed.source_bytes = static_cast<uint64_t>((last + 1) * source_size);
  packed.packed_bytes = static_cast<uint64_t>(dense.count * panels * copy.panel_bytes());
  packed.format = key.text();

  KernelLaunch& launch = packed.kernel;
  launch.name = "pack weight";
  launch.engine = Engine::kMme;
  launch.tasks = static_cast<uint64_t>(dense.count * panels);
  launch.bytes = packed.source_bytes + packed.packed_bytes;
  const TargetInfo& target = cache.module().target();
  launch.entry = cache.GetOrAdd(
      key, "pack_panels", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, target);
        Value* panel = e.RemConst(task, panels);
        const Values index = e.Decompose(e.DivConst(task, panels), dense.sizes);
        Value* first_col = e.Mul(panel, format.panel_cols);
        Value* offset = e.Add(e.Dot(index, dense.strides), e.Mul(first_col, b.col_stride));
        Value* from = e.Address(frame.Operand(builder, 0), e.Mul(offset, source_size));
        Value* to = e.Address(frame.Operand(builder, 1), e.Mul(task, copy.panel_bytes()));
        const auto full = [&] { EmitPanelCopy(e, copy, from, to); };
        if (n % format.panel_cols == 0) return full();
        Value* cols = e.Sub(e.Int(n), first_col);
        e.If(e.b.CreateICmpSGE(cols, e.Int(format.panel_cols)), full,
             [&] { EmitShortPanelCopy(e, copy, from, to, cols); });
      });
  return packed;
}

}  // namespace hpu::emulator
