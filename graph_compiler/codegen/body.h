// Emits a Body (loop_ir.h) for a run of consecutive elements along the vector dimension.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// Where in the iteration space the emitted code stands.
struct BodyPosition {
  std::vector<llvm::Value*>
      index;      // i64, one per iteration dimension; the last one is that of lane 0
  int lanes = 1;  // elements along the last dimension
  // Lanes that exist (tails): an i1 vector of `lanes` whose leading lanes are set, at least one, or
  // null when all do. Loads and stores of missing lanes are suppressed. Null when lanes == 1.
  llvm::Value* mask = nullptr;
};

// Emits all ops and stores. `accumulators[i]` stands for kAccumulator with imm_int i; each is a
// vector of `lanes` (or a scalar, splatted). Returns the value of every op: vectors of `lanes`
// (scalars when lanes == 1). May add basic blocks: the builder ends where code goes on. Ops whose
// value does not depend on the last dimension are computed once as scalars.
std::vector<llvm::Value*> EmitBody(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                   const TargetInfo& target, const Body& body,
                                   const BodyPosition& position,
                                   const std::vector<llvm::Value*>& accumulators);

// The same for runs of elements, interleaved op by op, stores last: a body longer than what a core
// looks ahead would otherwise run at the latency of its chain of ops. No run may read what another
// stores. `known[i]`, if given and not null, is op i's value in all of them (a scalar where it is
// the same for all lanes): the op is not emitted again.
std::vector<std::vector<llvm::Value*>> EmitBodies(llvm::IRBuilder<>& builder,
                                                  const KernelFrame& frame,
                                                  const TargetInfo& target, const Body& body,
                                                  const std::vector<BodyPosition>& positions,
                                                  const std::vector<llvm::Value*>& accumulators,
                                                  const std::vector<llvm::Value*>* known = nullptr);

// Emits the ops whose value is the same for all lanes; null in the result for the others. Scalars
// throughout; the last index of `position` is not read. Serves hoisting out of the vector loop.
// `accumulators` holds null for those that vary.
std::vector<llvm::Value*> EmitInvariants(llvm::IRBuilder<>& builder, const KernelFrame& frame,
                                         const TargetInfo& target, const Body& body,
                                         const BodyPosition& position,
                                         const std::vector<llvm::Value*>& accumulators);

// Which ops have a value that depends on the last iteration dimension, given which accumulators do.
std::vector<bool> VariesAlongLanes(const Body& body, size_t num_dims,
                                   const std::vector<bool>& accumulator_varies);

}  // namespace hpu::graph_compiler
