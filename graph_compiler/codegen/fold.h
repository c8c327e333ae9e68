// The accumulators of a pass while it runs over the columns: one per result, and copies that
// unrolled iterations fill independently.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

class PassFold {
 public:
  // Sets the accumulators, which are vectors of `lanes` elements, to the identities of their
  // reductions.
  PassFold(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
           const LoopPass& pass, int copies, int lanes);

  // Adds the values of an iteration (by op of the pass). Lanes that are off in `mask` are left out;
  // a null mask leaves out none.
  void Accumulate(size_t copy, const std::vector<llvm::Value*>& values, llvm::Value* mask);

  // Combines the copies in order and returns one value per result. `horizontal` folds the lanes
  // too, by halves, which is a fixed order whatever the target does best.
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
