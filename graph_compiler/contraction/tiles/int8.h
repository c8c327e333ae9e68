// Products of u8 by i8 in the forms of gemm.h and conv.h, with i32 sums that are exact at every ISA
// level: sum over k of (a - a_zero) * (b - b_zero[n]).
//
//   a * b         by dwords of consecutive k. Where the CPU has VNNI (AMX), four u8 of a and four
//                 i8 of b; else two i16 of each, so that no sum saturates, and a launch widens a
//   a_zero        accumulators begin at -a_zero * (sum of b over k), from the end of b's panel
//   b_zero        the weights of most quantizers have none, but only the values say so: a task that
//                 finds one subtracts b_zero * (sum of a over k - k * a_zero) from finished sums
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

inline bool IsIntegerProduct(MemoryType a, MemoryType b) {
  return a == MemoryType::kU8 && b == MemoryType::kI8;
}

// Returns the form of the panels of B.
inline PanelType IntegerPanels(const TargetInfo& target) {
  return target.avx512_bf16 ? PanelType::kI8Quads : PanelType::kI16Pairs;
}

// Returns the bytes of the row in scratch, after a tile, from which AMX tiles load their initial
// values.
inline uint64_t RowToBeginWithBytes(PanelType type, int64_t panel_cols) {
  return IsInteger(type) ? static_cast<uint64_t>(panel_cols * 4) : 0;
}

// Returns the dword of A that stands for 0.
uint32_t ZeroDword(PanelType type, int64_t a_zero);

// Turns rows of u8 into rows that the kernels read, with a_zero after each up to `filled_cols`.
void EmitIntegerRows(IrEmitter& e, PanelType type, const MatrixAccess& a, int64_t cols,
                     int64_t filled_cols, int64_t a_zero, llvm::Value* from, llvm::Value* to,
                     int64_t to_row_bytes, llvm::Value* rows);

// Handles the zero points in one panel of B.
class PanelZeros {
 public:
  PanelZeros(IrEmitter& e, const KernelFrame& frame, PanelType type, const IntegerZeros& zeros,
             int vectors)
      : e_(e), frame_(frame), type_(type), zeros_(zeros), vectors_(vectors) {}

  // Enters a panel: `sums` is its row of sums; `b_zero` is its first zero point (which is read if
  // there are any), and `columns` of them exist.
  void Enter(llvm::Value* sums, llvm::Value* b_zero, llvm::Value* columns);

  // Return the initial values of accumulators, in a tile and in AMX tiles (through `row`, which has
  // the width of a panel).
  Values Begin(TileShape shape) const;
  void StoreBegin(llvm::Value* row) const;

  // Corrects the finished sums of `rows` rows in memory. `sum_row` gets a row's number and a B of
  // ones, in AccumulateTile's shape {1, 1}, and returns the row's sum; `k` counts its elements.
  using SumRow = std::function<llvm::Value*(llvm::Value* row, const TileB& ones)>;
  void Finish(llvm::Value* sums, llvm::Value* rows, int64_t k, const SumRow& sum_row) const;

 private:
  IrEmitter& e_;
  const KernelFrame& frame_;
  const PanelType type_;
  const IntegerZeros& zeros_;
  const int vectors_;
  Values begin_;   // per vector, as f32
  Values b_zero_;  // per vector, i32
  llvm::Value* any_b_zero_ = nullptr;
};

}  // namespace hpu::graph_compiler
