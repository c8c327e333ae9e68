// Emits the code of one task of a loop kernel: passes over the columns of a row, or over a block of
// rows that lie side by side in a vector.
#pragma once

#include "graph_compiler/codegen/loop_kernel.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

// `kernel` must hold no loads of element numbers (codegen/iota.h).
void EmitLoopTask(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
                  const LoopKernel& kernel, llvm::Value* task);

}  // namespace hpu::graph_compiler
