// Makes one product of several that multiply by the same matrix.
//   %1 = matmul %a, %w                              %1 = concat %a, %b {dim = 0}
//   %2 = matmul %b, %w                  ==>         %2 = matmul %1, %w
//                                                   %3 = slice %2 {dim = 0, ...}; ...
// The inputs of a recurrence's steps are multiplied by the same weights, a few rows per step,
// unless the author of the layer multiplied all of them at once. A product of few rows takes as
// long as reading its matrix. The pass needs all rows, except for casts and views, before the first
// of the products, and none may have more than kFewRows rows. (XLA's DotMerger does this for
// products that share an operand.)
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

// Above this number a product is bound by its multiply-adds, whatever it is joined with.
inline constexpr int64_t kFewRows = 64;

absl::Status MergeProducts(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
