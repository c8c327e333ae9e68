// Emits a Body (loop_ir.h) for a run of consecutive elements along the vector dimension.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "synapse/emulator/graph_compiler/codegen/module.h"
#include "synapse/emulator/graph_compiler/loop_ir.h"

namespace hpu::emulator {

// Where in the iteration space the emitted code stands.
struct BodyPosition {
  std::vector<llvm::Value*> index;  // i64, one per iteration dimension; the last one is that of lane 0
  int lanes = 1;                    // elements along the last dimension
  // Lanes that exist (tails): an i1 vector of `lanes`, or null when all do. Loads and stores of
  // missing lanes are suppressed.
  llvm::Value* mask = nullptr;
};

// Emits all ops and stores. `accumulators[i]` stands for kAccumulator with imm_int i; each is a
// vector of `lanes` (or a scalar, splatted). Returns the value of every op (vectors of `lanes`).
std::vector<llvm::Value*> EmitBody(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                   const TargetInfo& target, const Body& body,
                                   const BodyPosition& position,
                                   const std::vector<llvm::Value*>& accumulators);

}  // namespace hpu::emulator
