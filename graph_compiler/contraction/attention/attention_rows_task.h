// The sizes that the kernels of attention_rows.cc share, and the base class of their tasks.
#pragma once

#include <cmath>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/attention/attention.h"
#include "graph_compiler/contraction/attention/attention_weight.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler::attention_rows {

inline constexpr int64_t kMostRows = 4;
inline constexpr int64_t kKeysPerTask = 1024;  // the scores of 4 rows are 16 KiB
inline constexpr uint32_t kQ = 0, kK = 1, kV = 2, kOut = 3, kMask = 4;  // operands

// The query rows that share a key head form one unit if they are few enough together.
struct RowPlan {
  RowPlan(const TargetInfo& target, const AttentionSpec& spec)
      : folds_heads(spec.kv_repeat > 1 && spec.m * spec.kv_repeat <= kMostRows),
        rows(folds_heads ? spec.m * spec.kv_repeat : spec.m),
        units(spec.batch * (folds_heads ? spec.heads / spec.kv_repeat : spec.heads)),
        chunks(CeilDiv(spec.n, kKeysPerTask)),
        chunk(RoundUp(CeilDiv(spec.n, chunks), target.f32_lanes)),
        key_vectors(CeilDiv(spec.d, target.f32_lanes)),
        value_vectors(CeilDiv(spec.dv, target.f32_lanes)),
        partial((value_vectors + 1) * target.f32_lanes) {
    chunks = CeilDiv(spec.n, chunk);
  }

  bool folds_heads;
  int64_t rows;   // of a unit
  int64_t units;  // batch x heads, or x key heads
  int64_t chunks, chunk;
  int64_t key_vectors, value_vectors;
  // The floats of the partial result of a row and chunk: O padded to vectors, maximum, sum.
  int64_t partial;
};

inline BodyOp Accumulator() {
  BodyOp op;
  op.op = Opcode::kAccumulator;
  op.type = ScalarType::kF32;
  return op;
}

// The parts that both kernels share.
class RowsTask {
 public:
  RowsTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
           const AttentionSpec& spec, const RowPlan& plan)
      : e_(builder, target), frame_(frame), spec_(spec), plan_(plan), lanes_(e_.lanes()) {}

 protected:
  void SetUnit(llvm::Value* unit) {
    const int64_t heads = plan_.folds_heads ? spec_.heads / spec_.kv_repeat : spec_.heads;
    const Values index = e_.Decompose(unit, {spec_.batch, heads});
    batch_ = index[0];
    key_head_ = plan_.folds_heads ? index[1] : e_.DivConst(index[1], spec_.kv_repeat);
    head_ = plan_.folds_heads ? e_.Mul(index[1], spec_.kv_repeat) : index[1];
  }

  int64_t QueryOf(int64_t row) const { return plan_.folds_heads ? row % spec_.m : row; }
  llvm::Value* HeadOf(int64_t row) {
    return plan_.folds_heads ? e_.Add(head_, row / spec_.m) : head_;
  }

  llvm::Value* Weight(llvm::Value* x, int lanes) { return EmitWeight(e_, x, lanes); }

  // While all keys are masked the maximum is -inf. Using 0 in its place keeps exp(-inf - x) at 0.
  llvm::Value* Shift(llvm::Value* maximum) {
    llvm::Value* none = e_.b.CreateFCmpOEQ(maximum, e_.F32Const(-INFINITY, 1));
    return e_.b.CreateSelect(none, e_.Zero(1), maximum);
  }

  // Stores out[row] = sums / total, or 0 for rows without keys.
  void StoreRow(int64_t row, const Values& sums, llvm::Value* total) {
    llvm::Value* empty = e_.b.CreateFCmpOEQ(total, e_.Zero(1));
    llvm::Value* factor =
        e_.b.CreateSelect(empty, e_.Zero(1), e_.b.CreateFDiv(e_.F32Const(1.0f, 1), total));
    Body store;
    store.ops.push_back(Accumulator());
    Store to;
    to.access.operand = kOut;
    to.access.type = spec_.type;
    to.access.strides.assign(spec_.out_strides, spec_.out_strides + 4);
    store.stores.push_back(to);
    for (size_t v = 0; v < sums.size(); ++v) {
      const int64_t col = static_cast<int64_t>(v) * lanes_;
      BodyPosition position;
      position.index = {batch_, HeadOf(row), e_.Int(QueryOf(row)), e_.Int(col)};
      position.lanes = lanes_;
      if (col + lanes_ > spec_.dv) position.mask = e_.LaneMask(e_.Int(spec_.dv - col), lanes_);
      EmitBody(e_.b, frame_, e_.target(), store, position,
               {e_.b.CreateFMul(sums[v], e_.Splat(factor, lanes_))});
    }
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const AttentionSpec& spec_;
  const RowPlan& plan_;
  const int lanes_;
  llvm::Value* batch_ = nullptr;
  llvm::Value* head_ = nullptr;  // the first one, if heads are folded
  llvm::Value* key_head_ = nullptr;
};

// Emits the join of one unit's chunks. Operand kQ holds their partial results.
void EmitJoinTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                  const AttentionSpec& spec, const RowPlan& plan, llvm::Value* unit);

}  // namespace hpu::graph_compiler::attention_rows
