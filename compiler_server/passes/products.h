// Makes one node of the terms of a sum. A value that a recurrence reads in every step has as its
// gradient a sum over the steps, with a product for each:
//   %1 = matmul %a, %x {transpose_a}                %1 = concat %a, %b {dim = 0}
//   %2 = matmul %b, %y {transpose_a}          ==>   %2 = concat %x, %y {dim = 0}
//   %3 = add %1, %2                                 %3 = matmul %1, %2 {transpose_a}
// The same is done for sums of columns (the gradient of a bias), and with casts of bf16 to f32 in
// between. Where results are larger than the operands, writing and adding them costs more than
// joining the operands. It is also done for rows that are multiplied by the same matrix and joined
// afterwards:
//   concat(matmul(%a, %w), matmul(%b, %w))    ==>   matmul(concat(%a, %b), %w)
// A scatter into zeros that is added to a value starts from that value instead (the gradient of an
// embedding whose weight is also the weight of the last layer):
//   add(%x, scatter_add(0, %i, %s))           ==>   scatter_add(%x, %i, %s)
// Nothing else may read the terms.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status JoinProducts(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
