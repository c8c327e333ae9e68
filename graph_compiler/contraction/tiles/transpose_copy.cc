#include "graph_compiler/contraction/tiles/transpose_copy.h"

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/tiling.h"
#include "graph_compiler/ir/transposition.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kRowsPerTask = 32;

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
  Shape domain = kernel.outer;
  domain.insert(domain.end(), kernel.inner.begin(), kernel.inner.end());
  domain.push_back(kernel.vector);
  const Body& body = kernel.passes[0].body;
  const std::optional<Transposition> exchanged = FindTransposition(body, domain);
  if (!exchanged.has_value()) return std::nullopt;
  const Access& load = body.ops[0].access;
  const Access& store = body.stores[0].access;
  TransposeCopy copy;
  copy.element_bytes = MemoryTypeSize(load.type);
  copy.source = load.operand.number;
  copy.target = store.operand.number;
  copy.source_offset = load.offset;
  copy.target_offset = store.offset;
  copy.rows = domain[exchanged->row];
  copy.target_row_stride = store.strides[exchanged->row];
  copy.cols = domain[exchanged->col];
  copy.source_col_stride = load.strides[exchanged->col];
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] == 1 || d == exchanged->row || d == exchanged->col) continue;
    copy.batch.push_back(domain[d]);
    copy.source_batch_strides.push_back(load.strides[d]);
    copy.target_batch_strides.push_back(store.strides[d]);
  }
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
        // They are copied as f32 or bf16, whatever they are: only moves and shifts touch the bits.
        const MemoryType type = copy.element_bytes == 4 ? MemoryType::kF32 : MemoryType::kBF16;
        const MatrixSource source{
            e.Address(frame.Operand(builder, copy.source), e.Mul(from, copy.element_bytes)), type,
            1, copy.source_col_stride};
        const MatrixTarget target{
            e.Address(frame.Operand(builder, copy.target), e.Mul(to, copy.element_bytes)),
            copy.target_row_stride, copy.cols, type};
        llvm::Value* count = e.Min(e.Sub(e.Int(copy.rows), row), e.Int(kRowsPerTask));
        EmitMatrixCopy(e, source, target, count, e.Int(copy.cols));
      });
}

}  // namespace hpu::graph_compiler
