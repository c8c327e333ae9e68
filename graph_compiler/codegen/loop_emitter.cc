#include "graph_compiler/codegen/loop_emitter.h"

#include <algorithm>
#include <bit>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/codegen/convert.h"
#include "graph_compiler/codegen/fold.h"
#include "graph_compiler/codegen/ir_loops.h"
#include "graph_compiler/codegen/math64.h"

namespace hpu::graph_compiler {
namespace {

// The number of vectors that one iteration handles. For short bodies this saves loop overhead. In a
// long body a core looks ahead by less than an iteration, so that independent chains of ops must
// stand in one iteration (EmitBodies).
constexpr int kUnroll = 4;

// Returns whether the op is hundreds of instructions of code, partly with branches, which cannot be
// interleaved with other code.
bool IsLongOp(const BodyOp& op) { return op.op == Opcode::kPhiloxUniform || IsMath64Opcode(op.op); }

int UnrollOf(const LoopPass& pass, const TargetInfo& target) {
  if (std::any_of(pass.body.ops.begin(), pass.body.ops.end(), IsLongOp)) return 1;
  // Each fold keeps an accumulator per vector in a register.
  const auto folds = static_cast<int>(pass.results.size());
  return folds * kUnroll > target.vector_registers / 2 ? kUnroll / 2 : kUnroll;
}

class LoopEmitter {
 public:
  LoopEmitter(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
              const LoopKernel& kernel)
      : b_(builder), frame_(frame), target_(target), kernel_(kernel) {}

  void EmitTask(llvm::Value* task) {
    accumulators_.assign(kernel_.accumulators.size(), nullptr);
    PlaceScratch();
    const size_t rank = kernel_.outer.size() + kernel_.inner.size() + 1;
    index_.assign(rank, Int(0));
    llvm::Value* rest = task;
    llvm::Value* block = nullptr;
    if (kernel_.vector_is_row) {
      block = Modulo(rest, BlockCount(), &rest);
    } else if (kernel_.vector_chunk > 0) {
      block = Modulo(rest, ChunkCount(), &rest);
    }
    for (size_t d = kernel_.outer.size(); d-- > 0;) {
      index_[d] = Modulo(rest, kernel_.outer[d], &rest);
    }
    if (kernel_.vector_is_row) {
      EmitRowBlock(block);
    } else {
      EmitRow(block);
    }
  }

 private:
  llvm::Value* Int(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }

  llvm::Value* Modulo(llvm::Value* value, int64_t size, llvm::Value** quotient) {
    if (size == 1) return Int(0);
    llvm::Value* divided = b_.CreateUDiv(value, Int(size));
    llvm::Value* rest = b_.CreateSub(value, b_.CreateMul(divided, Int(size)));
    *quotient = divided;
    return rest;
  }

  int64_t RowLanes() const { return std::min(kernel_.row_lanes, kernel_.vector); }
  int64_t BlockCount() const { return (kernel_.vector + RowLanes() - 1) / RowLanes(); }
  int64_t ChunkCount() const {
    return (kernel_.vector + kernel_.vector_chunk - 1) / kernel_.vector_chunk;
  }

  void PlaceScratch() {
    uint64_t offset = 0;
    scratch_.clear();
    for (const uint64_t bytes : kernel_.scratch_bytes) {
      scratch_.push_back(b_.CreateConstGEP1_64(b_.getInt8Ty(), frame_.scratch, offset));
      offset += AlignScratch(bytes);
    }
    SetScratchOperands(nullptr);
  }

  // With rows as lanes, scratch holds only the lanes of the block, so its base address is moved to
  // where row 0 would be.
  void SetScratchOperands(llvm::Value* first_row) {
    frame_.scratch_areas.resize(scratch_.size());
    for (size_t i = 0; i < scratch_.size(); ++i) {
      llvm::Value* base = scratch_[i];
      if (first_row != nullptr) {
        base = b_.CreateGEP(ElementType(b_.getContext(), kernel_.scratch_types[i]), base,
                            b_.CreateNeg(first_row));
      }
      frame_.scratch_areas[i] = base;
    }
  }

  void For(llvm::Value* begin, llvm::Value* end, int64_t step,
           const std::function<void(llvm::Value*)>& body) {
    EmitFor(b_, begin, end, Int(step), body);
  }

  void ForInner(size_t d, const std::function<void()>& body) {
    if (d == kernel_.inner.size()) {
      body();
      return;
    }
    For(Int(0), Int(kernel_.inner[d]), 1, [&](llvm::Value* i) {
      index_[kernel_.outer.size() + d] = i;
      ForInner(d + 1, body);
    });
  }

  llvm::Value* TailMask(llvm::Value* left, int lanes) {
    std::vector<llvm::Constant*> steps;
    for (int lane = 0; lane < lanes; ++lane)
      steps.push_back(b_.getInt64(static_cast<uint64_t>(lane)));
    llvm::Value* splat = b_.CreateVectorSplat(static_cast<unsigned>(lanes), left);
    return b_.CreateICmpULT(llvm::ConstantVector::get(steps), splat);
  }

  void SetAccumulators(const LoopPass& pass, const std::vector<llvm::Value*>& results) {
    for (size_t r = 0; r < results.size(); ++r) {
      accumulators_[pass.results[r].accumulator] = results[r];
    }
  }

  void KeepResults(const LoopPass& pass, const std::vector<llvm::Value*>& values) {
    for (const LoopPass::Result& result : pass.results) {
      accumulators_[result.accumulator] = values[result.value];
    }
  }

  // The vector dimension is a column here, or the innermost dimension of a map.

  void EmitRow(llvm::Value* chunk) {
    llvm::Value* begin = Int(0);
    llvm::Value* end = Int(kernel_.vector);
    if (chunk != nullptr) {
      begin = b_.CreateMul(chunk, Int(kernel_.vector_chunk));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                     b_.CreateAdd(begin, Int(kernel_.vector_chunk)), end);
    }
    for (const LoopPass& pass : kernel_.passes) {
      if (pass.row_level) {
        index_.back() = Int(0);
        const BodyPosition position{index_, 1, nullptr};
        KeepResults(pass, EmitBody(b_, frame_, target_, pass.body, position, accumulators_));
      } else {
        EmitColumns(pass, begin, end);
      }
    }
  }

  int ColumnLanes() const {
    if (kernel_.vector >= target_.f32_lanes) return target_.f32_lanes;
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(kernel_.vector)));
  }

  void EmitColumns(const LoopPass& pass, llvm::Value* begin, llvm::Value* end) {
    const int lanes = ColumnLanes();
    // Serial kernels have rows as lanes (ChooseVector): an iteration may read what the one before
    // it stored.
    const int most = kernel_.serial ? 1 : UnrollOf(pass, target_);
    const int unroll = kernel_.vector >= lanes * most ? most : 1;
    PassFold fold(b_, frame_, target_, pass, unroll, lanes);
    ForInner(0, [&] { EmitVectorLoop(pass, begin, end, lanes, unroll, fold); });
    SetAccumulators(pass, fold.Finish(/*horizontal=*/true));
  }

  void EmitAt(const LoopPass& pass, llvm::Value* at, int lanes, llvm::Value* mask, int runs,
              const std::vector<llvm::Value*>& invariants, PassFold& fold) {
    std::vector<BodyPosition> positions;
    for (int run = 0; run < runs; ++run) {
      index_.back() = b_.CreateAdd(at, Int(int64_t{run} * lanes));
      positions.push_back({index_, lanes, mask});
    }
    const auto values =
        EmitBodies(b_, frame_, target_, pass.body, positions, accumulators_, &invariants);
    for (size_t run = 0; run < values.size(); ++run) fold.Accumulate(run, values[run], mask);
  }

  void EmitVectorLoop(const LoopPass& pass, llvm::Value* begin, llvm::Value* end, int lanes,
                      int unroll, PassFold& fold) {
    index_.back() = begin;
    const BodyPosition here{index_, lanes, nullptr};
    const auto invariants = EmitInvariants(b_, frame_, target_, pass.body, here, accumulators_);
    llvm::Value* count = b_.CreateSub(end, begin);
    llvm::Value* at = begin;
    // Emits all whole groups of `runs` vectors. Returns false if nothing can be left after them.
    const auto emit_runs = [&](int runs) {
      const int64_t step = int64_t{lanes} * runs;
      llvm::Value* whole = b_.CreateMul(b_.CreateUDiv(count, Int(step)), Int(step));
      llvm::Value* stop = b_.CreateAdd(begin, whole);
      For(at, stop, step,
          [&](llvm::Value* i) { EmitAt(pass, i, lanes, nullptr, runs, invariants, fold); });
      at = stop;
      return kernel_.vector % step != 0 || kernel_.vector_chunk % step != 0;
    };
    if (unroll > 1 && !emit_runs(unroll)) return;
    if (!emit_runs(1) || lanes == 1) return;
    // At most one masked vector is left.
    For(at, end, lanes, [&](llvm::Value* i) {
      EmitAt(pass, i, lanes, TailMask(b_.CreateSub(end, i), lanes), 1, invariants, fold);
    });
  }

  // The vector dimension is a row here: lanes are rows.

  void EmitRowBlock(llvm::Value* block) {
    const auto lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(RowLanes())));
    llvm::Value* first = b_.CreateMul(block, Int(RowLanes()));
    SetScratchOperands(first);
    if (lanes == RowLanes() && kernel_.vector % lanes == 0) {
      EmitRowPasses(first, lanes, nullptr);
      return;
    }
    llvm::Value* left = b_.CreateSub(Int(kernel_.vector), first);
    llvm::LLVMContext& context = b_.getContext();
    auto* full = llvm::BasicBlock::Create(context, "full", frame_.function);
    auto* tail = llvm::BasicBlock::Create(context, "tail", frame_.function);
    auto* done = llvm::BasicBlock::Create(context, "done_block", frame_.function);
    b_.CreateCondBr(b_.CreateICmpSGE(left, Int(lanes)), full, tail);
    b_.SetInsertPoint(full);
    EmitRowPasses(first, lanes, nullptr);
    b_.CreateBr(done);
    b_.SetInsertPoint(tail);
    EmitRowPasses(first, lanes, TailMask(left, lanes));
    b_.CreateBr(done);
    b_.SetInsertPoint(done);
  }

  void EmitRowPasses(llvm::Value* first, int lanes, llvm::Value* mask) {
    index_.back() = first;
    for (const LoopPass& pass : kernel_.passes) {
      const auto emit = [&] {
        const BodyPosition position{index_, lanes, mask};
        return EmitBody(b_, frame_, target_, pass.body, position, accumulators_);
      };
      if (pass.row_level) {
        KeepResults(pass, emit());
        continue;
      }
      PassFold fold(b_, frame_, target_, pass, 1, lanes);
      ForInner(0, [&] { fold.Accumulate(0, emit(), nullptr); });
      SetAccumulators(pass, fold.Finish(/*horizontal=*/false));
    }
  }

  llvm::IRBuilder<>& b_;
  KernelFrame frame_;  // with the scratch areas of this kernel
  const TargetInfo& target_;
  const LoopKernel& kernel_;
  std::vector<llvm::Value*> index_;
  std::vector<llvm::Value*> accumulators_;  // scalars, or vectors where rows are lanes
  std::vector<llvm::Value*> scratch_;
};

}  // namespace

void EmitLoopTask(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
                  const LoopKernel& kernel, llvm::Value* task) {
  LoopEmitter(builder, frame, target, kernel).EmitTask(task);
}

}  // namespace hpu::graph_compiler
