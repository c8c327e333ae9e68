// One node for attention that a model spells out, one for its gradient.
//   %0 = matmul %q, %k {transpose_b} ; %1 = mul %0, 0.125 ; %2 = add %1, %mask
//   %3 = softmax %2 ; %4 = matmul %3, %v      ==>      %4 = sdpa %q, %k, %v, %mask {scale = 0.125}
// With dropout, or where the graph has its gradient: sdpa_train and sdpa_train_backward, which
// draws the dropped weights again. attention_match.h says what is found. A row that hides every key
// by -inf gives 0, as PyTorch's own attention does, where softmax gives NaN. Then: key and value
// heads that are repeated for the queries are read as they are, also where
// F.scaled_dot_product_attention was called; the gradients of the copies are summed inside.
//
// Before a training graph is parted: afterwards the weights would be saved. Needs: simplified form.
// Leaves unused nodes for canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status RecogniseAttention(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
