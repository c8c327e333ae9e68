// Code of one task of a loop kernel: passes over the columns of a row, or over a block of rows that
// lie side by side in a vector.
#pragma once

#include "synapse/emulator/graph_compiler/codegen/loop_kernel.h"

namespace hpu::emulator {

// `kernel` holds no loads of kIotaOperand (codegen/iota.h).
void EmitLoopTask(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
                  const LoopKernel& kernel, llvm::Value* task);

}  // namespace hpu::emulator
