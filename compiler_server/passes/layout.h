// Moves permutes down, towards the end of chains, where they meet their opposites.
//   %1 = permute %x {perm = [0,3,1,2]}            %1 = relu %x
//   %2 = relu %1                            ==>   %2 = permute %1 {perm = [0,3,1,2]}
// decompose puts a convolution between a permute to channels-last and one back. When the permutes
// after it are moved through bias, normalisation, activation, residual and pooling, they cancel the
// ones before the next convolution, so a chain keeps one permute at each end. In the same way
// rotary embeddings leave one permute in front of attention. The pass is one walk forwards. It
// moves permutes through elementwise ops whose other operands are permuted alike or small,
// reductions, concat, pad, slice, and reshapes that keep the groups of permuted dimensions
// together.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status MovePermutes(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
