// Ranges of rows, or of terms, that are known only when the kernel runs (GroupedGemmSpec).
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// The operands of a launch: A, the ends of the groups, then all matrices or one for each group.
inline constexpr uint32_t kEndsOfGroups = 1;
inline constexpr uint32_t kFirstMatrix = 2;

// Returns the address of a group's matrix. `bytes_between` is 0 where each has an operand, or where
// there is one group.
llvm::Value* MatrixOfGroup(IrEmitter& e, const KernelFrame& frame, llvm::Value* group,
                           int64_t bytes_between);
inline int64_t BytesBetweenMatrices(const MatrixAccess& b) {
  return b.batch_strides.empty() ? 0 : b.batch_strides[0] * MemoryTypeSize(b.type);
}

struct GroupRange {
  llvm::Value* begin = nullptr;
  llvm::Value* end = nullptr;
};

// Returns the range of group `group`, which may also be `groups`: the range that follows the last
// group. It lies in [0, limit], whatever the ends are.
GroupRange RangeOfGroup(IrEmitter& e, llvm::Value* ends, int64_t groups, llvm::Value* group,
                        int64_t limit);

// Returns the group of a row; `groups` if it belongs to none.
llvm::Value* GroupOfRow(IrEmitter& e, llvm::Value* ends, int64_t groups, llvm::Value* row);

}  // namespace hpu::graph_compiler
