#include "graph_compiler/contraction/matrix_copy.h"
#include "graph_compiler/contraction/packing.h"
#include "graph_compiler/contraction/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kStagedRowsPerTask = 16;

}  // namespace

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

}  // namespace hpu::graph_compiler
