// The kernels of quantized weights (quantized_weights.h) share these parts: the rows of x, the sums
// of their groups, the factors of columns, and the results.
#pragma once

#include <algorithm>

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

class QuantizedGemm {
 public:
  // The numbers of the launch's operands; those of the epilogue's operands follow.
  enum : uint32_t { kX, kWeights, kScale, kZero };

  QuantizedGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                const QuantizedGemmSpec& spec)
      : e_(builder, target), frame_(frame), spec_(spec), groups_(spec.k / spec.group) {}

  // AVX512_BF16 multiplies pairs along k, and one table makes both halves of a pair.
  static bool TakesPairs(const TargetInfo& target, const QuantizedGemmSpec& spec);
  static bool HasScale(const QuantizedGemmSpec& spec);
  static bool HasZero(const QuantizedGemmSpec& spec);
  // Scratch holds the rows in f32, then the sums of their groups.
  static uint64_t ScratchBytes(const TargetInfo& target, const QuantizedGemmSpec& spec);
  static int64_t ColumnsPerTask(const TargetInfo& target, const QuantizedGemmSpec& spec);

 protected:
  using Value = llvm::Value;

  // The rows of A in the form in which the kernel reads them.
  struct Rows {
    Value* base = nullptr;
    MemoryType type = MemoryType::kF32;
    int64_t stride = 0;  // elements
  };

  template <typename Run>
  void EachBlockOfRows(int64_t most, const Run& run) {
    const int64_t full = spec_.m / most * most;
    e_.For(e_.Int(0), e_.Int(full), most, [&](Value* row) { run(row, most); });
    if (full < spec_.m) run(e_.Int(full), spec_.m - full);
  }

  // Makes the rows, and the sums of their groups if they are needed.
  void PrepareRows();
  Value* RowAddress(Value* row, int64_t further, Value* k);

  // Walks over [begin, begin + group) by `step` as far as it goes, then under masks of the
  // remainder.
  template <typename Step>
  Values EachOfGroup(Value* begin, int64_t step, const Values& init, const Step& body) {
    const int64_t full = spec_.group / step * step;
    Values state = e_.For(begin, e_.Add(begin, full), step, init,
                          [&](Value* k, const Values& s) { return body(k, step, nullptr, s); });
    for (int64_t done = full; done < spec_.group; done += e_.lanes()) {
      const int64_t left = std::min<int64_t>(spec_.group - done, e_.lanes());
      Value* mask = left == e_.lanes() ? nullptr : e_.LaneMask(e_.Int(left), e_.lanes());
      state = body(e_.Add(begin, done), e_.lanes(), mask, state);
    }
    return state;
  }

  // The address of the sum of a group of x.
  Value* SumOfX(Value* row, int64_t further, Value* group);
  Value* FactorAddress(uint32_t operand, const MatrixAccess& factor, Value* group, Value* col);
  Value* AddScaled(Value* total, Value* scale, Value* sum);
  void Finish(Value* row, Value* col, Value* sums);

  IrEmitter e_;
  const KernelFrame& frame_;
  const QuantizedGemmSpec& spec_;
  const int64_t groups_;
  Rows rows_;
  Value* sums_of_x_ = nullptr;

 private:
  static bool CopiesRows(const TargetInfo& target, const QuantizedGemmSpec& spec);
  static int64_t CopiedBytes(const TargetInfo& target, const QuantizedGemmSpec& spec);
  void SumGroups();
};

// Emits the columns of one task. With 8 bits lanes run along k, with 4 bits they are columns.
void EmitByteGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                  const QuantizedGemmSpec& spec, llvm::Value* task);
void EmitNibbleGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                    const QuantizedGemmSpec& spec, llvm::Value* task);

}  // namespace hpu::graph_compiler
