#include "graph_compiler/contraction/transpose_copy.h"

#include "graph_compiler/contraction/ir_emitter.h"
#include "graph_compiler/contraction/matrix_copy.h"
#include "graph_compiler/contraction/tiling.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kRowsPerTask = 32;
constexpr int64_t kLeastRowsAndCols = 16;
constexpr int64_t kElementBytes = 4;

bool IsPlain(const Access& access) {
  return access.indirect_value == kNoValue && MemoryTypeSize(access.type) == kElementBytes;
}

}  // namespace

uint64_t TransposeCopy::tasks() const {
  int64_t count = CeilDiv(rows, kRowsPerTask);
  for (const int64_t size : batch) count *= size;
  return static_cast<uint64_t>(count);
}

std::optional<TransposeCopy> AsTransposeCopy(const LoopKernel& kernel) {
  if (kernel.passes.size() != 1 || kernel.serial || !kernel.accumulators.empty()) {
    return std::nullopt;
  }
  const Body& body = kernel.passes[0].body;
  if (body.ops.size() != 1 || body.ops[0].op != Opcode::kLoad || body.stores.size() != 1) {
    return std::nullopt;
  }
  const Access& load = body.ops[0].access;
  const Access& store = body.stores[0].access;
  const bool moves = IsPlain(load) && IsPlain(store) && load.type == store.type;
  if (!moves || !load.operand.IsBuffer() || !store.operand.IsBuffer() ||
      load.operand == store.operand) {
    return std::nullopt;
  }
  Shape domain = kernel.outer;
  domain.insert(domain.end(), kernel.inner.begin(), kernel.inner.end());
  domain.push_back(kernel.vector);
  if (load.strides.size() != domain.size() || store.strides.size() != domain.size()) {
    return std::nullopt;
  }
  TransposeCopy copy;
  copy.source = load.operand.number;
  copy.target = store.operand.number;
  copy.source_offset = load.offset;
  copy.target_offset = store.offset;
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] == 1) continue;
    if (copy.rows == 0 && load.strides[d] == 1 && store.strides[d] != 1) {
      copy.rows = domain[d];
      copy.target_row_stride = store.strides[d];
    } else if (copy.cols == 0 && store.strides[d] == 1 && load.strides[d] != 1) {
      copy.cols = domain[d];
      copy.source_col_stride = load.strides[d];
    } else {
      copy.batch.push_back(domain[d]);
      copy.source_batch_strides.push_back(load.strides[d]);
      copy.target_batch_strides.push_back(store.strides[d]);
    }
  }
  if (copy.rows < kLeastRowsAndCols || copy.cols < kLeastRowsAndCols) return std::nullopt;
  return copy;
}

void EmitTransposeCopy(KernelModule& module, const TransposeCopy& copy) {
  module.AddKernel(
      "transpose", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
        IrEmitter e(builder, module.target());
        const int64_t chunks = CeilDiv(copy.rows, kRowsPerTask);
        const Values index = e.Decompose(e.DivConst(task, chunks), copy.batch);
        llvm::Value* row = e.Mul(e.RemConst(task, chunks), kRowsPerTask);
        llvm::Value* from =
            e.Add(e.Add(e.Dot(index, copy.source_batch_strides), row), copy.source_offset);
        llvm::Value* to = e.Add(
            e.Add(e.Dot(index, copy.target_batch_strides), e.Mul(row, copy.target_row_stride)),
            copy.target_offset);
        // As f32 whatever they are: nothing but loads, shuffles and stores touches them.
        const MatrixSource source{
            e.Address(frame.Operand(builder, copy.source), e.Mul(from, kElementBytes)),
            MemoryType::kF32, 1, copy.source_col_stride};
        const MatrixTarget target{
            e.Address(frame.Operand(builder, copy.target), e.Mul(to, kElementBytes)),
            copy.target_row_stride, copy.cols};
        llvm::Value* count = e.Min(e.Sub(e.Int(copy.rows), row), e.Int(kRowsPerTask));
        EmitMatrixCopy(e, source, target, count, e.Int(copy.cols));
      });
}

}  // namespace hpu::graph_compiler
