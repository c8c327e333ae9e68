// Gives equal graphs one form: no duplicates, nothing unused.
//   %1 = exp %x ; %2 = exp %x ; %3 = add %1, %2 ; %4 = neg %x   ==>   %1 = exp %x ; %3 = add %1, %1
// ATen calls are never merged, because they may draw random numbers. They are dropped only if they
// are known to have no effect beyond their results. The cost is linear: one walk forwards and one
// backwards.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status Canonicalize(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
