// passes/layout.h - moves permutes down, towards the end of chains, where they meet their
// opposites.
//   %1 = permute %x {perm = [0,3,1,2]}            %1 = relu %x
//   %2 = relu %1                            ==>   %2 = permute %1 {perm = [0,3,1,2]}
// A convolution comes out of decompose between a permute to channels-last and one back. With the
// ones behind it moved through bias, normalisation, activation, residual and pooling they undo the
// ones in front of the next convolution: a chain keeps one permute at each end. Rotary embeddings
// likewise leave one permute in front of attention. One walk forwards. Moves through: elementwise
// ops whose other operands are permuted alike or small, reductions, concat, pad, slice, reshapes
// that keep the groups of permuted dimensions together.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status MovePermutes(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
