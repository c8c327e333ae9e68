// The accumulators of a pass while it runs over the columns: one per result, and copies of them
// that unrolled iterations fill independently.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

class PassFold {
 public:
  // Sets the accumulators, vectors of `lanes`, to the identities of their reductions.
  PassFold(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
           const LoopPass& pass, int copies, int lanes);

  // Adds an iteration's values (by op of the pass); lanes off in `mask` (null: none) are left out.
  void Accumulate(size_t copy, const std::vector<llvm::Value*>& values, llvm::Value* mask);

  // The copies combined, in order, by result; `horizontal` folds the lanes too, by halves: a fixed
  // order, whatever the target does best.
  std::vector<llvm::Value*> Finish(bool horizontal);

 private:
  llvm::Value* Combine(size_t result, llvm::Value* x, llvm::Value* y);
  llvm::Value* FoldLanes(size_t result, llvm::Value* vector);

  llvm::IRBuilder<>& b_;
  const TargetInfo& target_;
  const LoopPass& pass_;
  std::vector<std::vector<llvm::AllocaInst*>> slots_;  // [copy][result], promoted to registers
};

}  // namespace hpu::graph_compiler
