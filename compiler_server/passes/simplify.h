// Removes work without effect, by looking at a node and its operands.
//   %1 = permute %x {perm = [1,0]} ; %2 = matmul %y, %1      ==>  %2 = matmul %y, %x {transpose_b}
//   %1 = reshape %x ; %2 = reshape %1                        ==>  %2 = reshape %x
//   %1 = expand %s ; %2 = add %x, %1                         ==>  %2 = add %x, %s
//   %1 = pad %x {value = 0} ; %2 = conv %1, %w               ==>  %2 = conv %x, %w {pads}
//   mul by 1, add of 0, casts there and back, permutes that undo each other, slices of slices,
//   permutes of dimensions of size 1, values widened, moved and narrowed again
// The pass is one walk forwards, and every rule is local. It leaves unused nodes for canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status Simplify(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
