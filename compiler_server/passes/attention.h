// passes/attention.h - recognises attention that a model spells out.
//   %0 = matmul %q, %k {transpose_b} ; %1 = mul %0, 0.125 ; %2 = add %1, %mask
//   %3 = softmax %2 ; %4 = matmul %3, %v      ==>      %4 = sdpa %q, %k, %v, %mask {scale = 0.125}
// The scores may be scaled (or the query or key before), then masked by additions and by `where`
// with a hidden value of -1e30 or less, and cast between floats; nothing else may read them.
// Operands have rank 3 or 4. A row that hides every key by -inf gives 0, as PyTorch's own attention
// does, where softmax gives NaN. Needs: simplified form. Leaves unused nodes for canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status RecogniseAttention(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
