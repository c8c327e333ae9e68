// Ranges of rows, or of terms, that are known only when the kernel runs (GroupedGemmSpec).
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"

namespace hpu::graph_compiler {

// The operand of a launch that holds the ends of the groups, i32 each.
inline constexpr uint32_t kEndsOfGroups = 2;

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
