// Emits a Body (loop_ir.h) for a run of consecutive elements along the vector dimension.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// The place in the iteration space at which the emitted code runs.
struct BodyPosition {
  std::vector<llvm::Value*>
      index;      // i64, one per iteration dimension; the last one is the index of lane 0
  int lanes = 1;  // elements along the last dimension
  // The lanes that exist in a tail: an i1 vector of `lanes` elements whose leading lanes are set,
  // at least one. It is null when all lanes exist and when lanes == 1. Loads and stores of missing
  // lanes are suppressed.
  llvm::Value* mask = nullptr;
};

// Emits all ops and stores. `accumulators[i]` stands for kAccumulator with imm_int i; each is a
// vector of `lanes` elements (or a scalar, which is splatted). Returns the value of every op:
// vectors of `lanes` elements (scalars when lanes == 1). This may add basic blocks: the builder
// ends where code goes on. Ops whose value does not depend on the last dimension are computed once
// as scalars.
std::vector<llvm::Value*> EmitBody(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                   const TargetInfo& target, const Body& body,
                                   const BodyPosition& position,
                                   const std::vector<llvm::Value*>& accumulators);

// Emits several runs of elements, interleaved op by op, with all stores last: a body that is longer
// than what a core looks ahead would otherwise run at the latency of its chain of ops. No run may
// read what another run stores. If `known[i]` is given and not null, it is the value of op i in all
// runs (a scalar where it is the same for all lanes), and the op is not emitted again.
std::vector<std::vector<llvm::Value*>> EmitBodies(llvm::IRBuilder<>& builder,
                                                  const KernelFrame& frame,
                                                  const TargetInfo& target, const Body& body,
                                                  const std::vector<BodyPosition>& positions,
                                                  const std::vector<llvm::Value*>& accumulators,
                                                  const std::vector<llvm::Value*>* known = nullptr);

// Emits the ops whose value is the same for all lanes; the result is null for the other ops. All
// values are scalars, and the last index of `position` is not read. This serves hoisting out of the
// vector loop. `accumulators` holds null for those that vary.
std::vector<llvm::Value*> EmitInvariants(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                         const TargetInfo& target, const Body& body,
                                         const BodyPosition& position,
                                         const std::vector<llvm::Value*>& accumulators);

// Returns which ops have a value that depends on the last iteration dimension. The caller says
// which accumulators do.
std::vector<bool> VariesAlongLanes(const Body& body, size_t num_dims,
                                   const std::vector<bool>& accumulator_varies);

}  // namespace hpu::graph_compiler
