// One node for attention that a model spells out, one for its gradient.
//   %0 = matmul %q, %k {transpose_b} ; %1 = mul %0, 0.125 ; %2 = add %1, %mask
//   %3 = softmax %2 ; %4 = matmul %3, %v      ==>      %4 = sdpa %q, %k, %v, %mask {scale = 0.125}
// With dropout, or where the graph contains its gradient, the result is sdpa_train and
// sdpa_train_backward, which draws the dropped weights again. attention_match.h describes what is
// found. A row in which -inf hides every key gives 0, as PyTorch's own attention does, where
// softmax gives NaN. After that, key and value heads that are repeated for the queries are read
// unrepeated, also where F.scaled_dot_product_attention was called; the node then sums the
// gradients of the copies.
//
// This runs before a training graph is partitioned, because afterwards the weights would be saved.
// It needs the simplified form and leaves unused nodes for canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status RecogniseAttention(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
