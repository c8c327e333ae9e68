// Computes values that depend on constants only, where the result is small.
//   %1 = iota ; %2 = reshape %1 ; %3 = le %1, %2   ==>   const %const0 : bool[..] = 0x...
// A result whose elements are all equal becomes `full`. Results above kMaxFoldedBytes, which are
// cheaper to make on the device than to carry, and integers that a double does not hold are not
// folded.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

inline constexpr int64_t kMaxFoldedBytes = 64 << 10;

absl::Status FoldConstants(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
