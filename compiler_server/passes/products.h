// passes/products.h - makes one node of a sum's terms. What a recurrence reads in every step
// gets its gradient as a sum over the steps, a product each:
//   %1 = matmul %a, %x {transpose_a}                %1 = concat %a, %b {dim = 0}
//   %2 = matmul %b, %y {transpose_a}          ==>   %2 = concat %x, %y {dim = 0}
//   %3 = add %1, %2                                 %3 = matmul %1, %2 {transpose_a}
// Sums of columns (a bias's gradient) likewise, and with casts of bf16 to f32 in between. Where
// results are larger than the operands, writing and adding them costs more than joining the
// operands. And rows that meet the same matrix, and are joined behind it:
//   concat(matmul(%a, %w), matmul(%b, %w))    ==>   matmul(concat(%a, %b), %w)
// A scatter into zeros that is added to something starts from that instead (the gradient of an
// embedding whose weight is the last layer's too):
//   add(%x, scatter_add(0, %i, %s))           ==>   scatter_add(%x, %i, %s)
// Needs: nobody else reads the terms.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status JoinProducts(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
