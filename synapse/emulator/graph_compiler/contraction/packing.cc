#include "synapse/emulator/graph_compiler/contraction/packing.h"

#include <algorithm>

#include "synapse/emulator/graph_compiler/contraction/matrix_copy.h"
#include "synapse/emulator/graph_compiler/contraction/tiling.h"

namespace hpu::emulator {
namespace {

using llvm::Value;

constexpr int64_t kNarrowChunkRows = 64;
constexpr int64_t kStagedRowsPerTask = 16;

// The batch dimensions that are not broadcast.
struct DenseBatch {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  // of the source, elements
  int64_t count = 1;
};

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

// Halves of two vectors of f32 joined as dwords; the values came from bf16, so nothing is lost.
void JoinHalves(IrEmitter& e, Value* low_address, Value* high_address, Value* target) {
  llvm::Type* dwords = llvm::FixedVectorType::get(e.b.getInt32Ty(), e.lanes());
  Value* low = e.b.CreateAlignedLoad(dwords, low_address, llvm::Align(4));
  Value* high = e.b.CreateAlignedLoad(dwords, high_address, llvm::Align(4));
  Value* joined = e.b.CreateOr(e.b.CreateLShr(low, llvm::ConstantInt::get(dwords, 16)),
                               e.b.CreateAnd(high, llvm::ConstantInt::get(dwords, 0xffff0000u)));
  e.b.CreateAlignedStore(joined, target, llvm::Align(4));
}

// rows x panel_cols of f32 -> one of the bf16 forms of PanelType.
void NarrowPanel(IrEmitter& e, Value* from, Value* to, Value* rows, PanelFormat format) {
  const int64_t vector_bytes = e.lanes() * 4;
  const int64_t row_bytes = format.panel_cols * 4;
  const bool pairs = format.packed_type == PanelType::kBF16Pairs;
  // From a vector to the one that fills the high halves, and to the next vector that fills low
  // ones.
  const int64_t partner = pairs ? row_bytes : vector_bytes;
  const int64_t step = pairs ? vector_bytes : 2 * vector_bytes;
  e.For(e.Int(0), rows, pairs ? 2 : 1, [&](Value* row) {
    Value* source = e.Address(from, e.Mul(row, row_bytes));
    Value* target = e.Address(to, e.Mul(row, row_bytes / 2));
    for (int64_t i = 0; i * step < row_bytes; ++i) {
      JoinHalves(e, e.Address(source, i * step), e.Address(source, i * step + partner),
                 e.Address(target, i * vector_bytes));
    }
  });
}

void CopyPanel(IrEmitter& e, const MatrixSource& source, Value* target, int64_t panel_cols,
               Value* rows, Value* cols, bool may_be_short) {
  const MatrixTarget panel{target, panel_cols, panel_cols};
  if (source.col_stride != 1 || !may_be_short) {
    return EmitMatrixCopy(e, source, panel, rows, may_be_short ? cols : e.Int(panel_cols));
  }
  e.If(
      e.b.CreateICmpEQ(cols, e.Int(panel_cols)),
      [&] { EmitMatrixCopy(e, source, panel, rows, e.Int(panel_cols)); },
      [&] { EmitMatrixCopy(e, source, panel, rows, cols); });
}

}  // namespace

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
  int64_t outer_k = 1;
  for (const int64_t size : format.outer_k_sizes) outer_k *= size;
  const int64_t run_bytes = k * format.panel_cols * PackedSize(format.packed_type);
  const int64_t panel_bytes = outer_k * run_bytes;

  KernelKey key("pack_panels");
  key.Add(dense.sizes).Add(dense.strides).Add(b.type).Add(b.row_stride).Add(b.col_stride);
  key.Add(k).Add(n).Add(format.panel_cols).Add(format.packed_type);
  key.Add(format.outer_k_sizes).Add(format.outer_k_strides);

  PackedOperand packed;
  packed.source = b.buffer;
  int64_t last = (k - 1) * b.row_stride + (n - 1) * b.col_stride;
  for (size_t i = 0; i < dense.sizes.size(); ++i) last += (dense.sizes[i] - 1) * dense.strides[i];
  for (size_t i = 0; i < format.outer_k_sizes.size(); ++i) {
    last += (format.outer_k_sizes[i] - 1) * format.outer_k_strides[i];
  }
  packed.source_bytes = static_cast<uint64_t>((last + 1) * source_size);
  packed.packed_bytes = static_cast<uint64_t>(dense.count * panels * panel_bytes);
  packed.format = key.text();

  KernelLaunch& launch = packed.kernel;
  launch.name = "pack weight";
  launch.engine = Engine::kMme;
  launch.tasks = static_cast<uint64_t>(dense.count * panels);
  launch.bytes = packed.source_bytes + packed.packed_bytes;
  const bool narrow = format.packed_type != PanelType::kF32;
  if (narrow) {
    launch.scratch_bytes = static_cast<uint64_t>(kNarrowChunkRows * format.panel_cols * 4);
  }
  const TargetInfo& target = cache.module().target();
  launch.entry = cache.GetOrAdd(
      key, "pack_panels", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, target);
        Value* panel = e.RemConst(task, panels);
        const Values index = e.Decompose(e.DivConst(task, panels), dense.sizes);
        Value* first_col = e.Mul(panel, format.panel_cols);
        Value* offset = e.Add(e.Dot(index, dense.strides), e.Mul(first_col, b.col_stride));
        Value* to = e.Address(frame.Operand(builder, 1), e.Mul(task, panel_bytes));
        Value* cols = e.Min(e.Sub(e.Int(n), first_col), e.Int(format.panel_cols));
        const bool may_be_short = n % format.panel_cols != 0;
        const auto pack_run = [&](Value* outer) {
          Value* outer_offset =
              e.Dot(e.Decompose(outer, format.outer_k_sizes), format.outer_k_strides);
          Value* run_offset = e.Mul(e.Add(offset, outer_offset), source_size);
          Value* from = e.Address(frame.Operand(builder, 0), run_offset);
          Value* run = e.Address(to, e.Mul(outer, run_bytes));
          if (!narrow) {
            CopyPanel(e, {from, b.type, b.row_stride, b.col_stride}, run, format.panel_cols,
                      e.Int(k), cols, may_be_short);
            return;
          }
          e.For(e.Int(0), e.Int(k), kNarrowChunkRows, [&](Value* k0) {
            Value* rows = e.Min(e.Sub(e.Int(k), k0), e.Int(kNarrowChunkRows));
            Value* chunk = e.Address(from, e.Mul(k0, b.row_stride * source_size));
            CopyPanel(e, {chunk, b.type, b.row_stride, b.col_stride}, frame.scratch,
                      format.panel_cols, rows, cols, may_be_short);
            NarrowPanel(e, frame.scratch, e.Address(run, e.Mul(k0, format.panel_cols * 2)), rows,
                        format);
          });
        };
        if (outer_k == 1) {
          pack_run(e.Int(0));
        } else {
          e.For(e.Int(0), e.Int(outer_k), 1, pack_run);
        }
      });
  return packed;
}

void StageRows(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
               MatrixAccess& a, EmittedKernels& out) {
  const TargetInfo& target = cache.module().target();
  const DenseBatch dense = DenseDimensions(batch, a.batch_strides);
  // A line more than needed keeps rows of a power of two from meeting in one cache set.
  const int64_t row_stride = RoundUp(cols, 16) + 16;
  const int64_t chunks = CeilDiv(rows, kStagedRowsPerTask);
  const int64_t size = MemoryTypeSize(a.type);
  const uint64_t workspace = out.workspace_bytes;
  const uint64_t staged_bytes = static_cast<uint64_t>(dense.count * rows * row_stride * 4);
  out.workspace_bytes += (staged_bytes + 127) / 128 * 128;
  const OperandRef staged{OperandRef::Kind::kWorkspace, kExtraWorkspace, workspace};

  KernelKey key("stage_rows");
  key.Add(dense.sizes).Add(dense.strides).Add(a.type).Add(a.row_stride).Add(a.col_stride);
  key.Add(rows).Add(cols);
  KernelLaunch launch;
  launch.name = "stage";
  launch.engine = Engine::kMme;
  launch.operands = {a.buffer, staged};
  launch.tasks = static_cast<uint64_t>(dense.count * chunks);
  launch.bytes = staged_bytes + static_cast<uint64_t>(dense.count * rows * cols * size);
  launch.grain = ChooseGrain(launch.tasks, launch.bytes * 4);
  launch.entry = cache.GetOrAdd(
      key, "stage_rows", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, target);
        Value* matrix = e.DivConst(task, chunks);
        Value* row = e.Mul(e.RemConst(task, chunks), kStagedRowsPerTask);
        Value* offset =
            e.Add(e.Dot(e.Decompose(matrix, dense.sizes), dense.strides), e.Mul(row, a.row_stride));
        Value* from = e.Address(frame.Operand(builder, 0), e.Mul(offset, size));
        Value* to_row = e.Add(e.Mul(matrix, rows), row);
        Value* to = e.Address(frame.Operand(builder, 1), e.Mul(to_row, row_stride * 4));
        Value* count = e.Min(e.Sub(e.Int(rows), row), e.Int(kStagedRowsPerTask));
        EmitMatrixCopy(e, {from, a.type, a.row_stride, a.col_stride},
                       {to, row_stride, RoundUp(cols, e.lanes())}, count, e.Int(cols));
      });
  out.launches.push_back(std::move(launch));

  int64_t count = 0;
  a.batch_strides = DenseBatchStrides(batch, a.batch_strides, &count);
  for (int64_t& stride : a.batch_strides) stride *= rows * row_stride;
  a.buffer = staged;
  a.type = MemoryType::kF32;
  a.offset = 0;
  a.row_stride = row_stride;
  a.col_stride = 1;
  a.stable = false;
}

}  // namespace hpu::emulator
