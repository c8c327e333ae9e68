// Loads and stores of `lanes` consecutive elements of an iteration dimension, for any Access.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

class MemoryAccess {
 public:
  MemoryAccess(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
               const BodyPosition& position)
      : b_(builder), frame_(frame), target_(target), position_(position) {}

  // Loads one element, the one of lane 0, in its compute type. `indirect` is a scalar index or
  // null.
  llvm::Value* LoadScalar(const Access& access, llvm::Value* indirect);
  // Loads one element per lane. `indirect` is null, a scalar, or a vector with an index per lane.
  llvm::Value* LoadLanes(const Access& access, llvm::Value* indirect);
  // `value` has the compute type `from` and is a vector, or a scalar that is stored to every lane.
  void Store(const Access& access, llvm::Value* value, ScalarType from, llvm::Value* indirect);

 private:
  // The address of lane 0, with a scalar indirection included.
  llvm::Value* Address(const Access& access, llvm::Value* scalar_indirect);
  llvm::Value* ClampIndirect(const Access& access, llvm::Value* index);
  llvm::Value* IsInside(const Access& access, llvm::Value* index);
  llvm::Value* LaneStep(const Access& access, llvm::Value* lane);
  llvm::Value* ValidLanes();  // i64 count of leading lanes that exist
  bool HasMaskedMoves(MemoryType type) const;
  llvm::Value* LoadVector(const Access& access, llvm::Value* address);
  llvm::Value* LoadGathered(const Access& access, llvm::Value* address, llvm::Value* indices);
  void StoreVector(const Access& access, llvm::Value* raw, llvm::Value* address);
  // Emits `for (i = 0; i < count; ++i) emit(i)`.
  void ForEachLane(llvm::Value* count, const std::function<void(llvm::Value*)>& emit);

  llvm::IRBuilder<>& b_;
  const KernelFrame& frame_;
  const TargetInfo& target_;
  const BodyPosition& position_;
};

}  // namespace hpu::graph_compiler
