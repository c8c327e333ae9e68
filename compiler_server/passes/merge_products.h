// passes/merge_products.h - makes one product of several that multiply by the same matrix.
//   %1 = matmul %a, %w                              %1 = concat %a, %b {dim = 0}
//   %2 = matmul %b, %w                  ==>         %2 = matmul %1, %w
//                                                   %3 = slice %2 {dim = 0, ...}; ...
// The inputs of a recurrence's steps meet the same weights, a few rows a step, unless whoever wrote
// the layer multiplied all of them at once. A product of few rows is as slow as reading its matrix.
// Needs: all rows, but for casts and views, are there before the first of the products; none has
// more than kFewRows rows.
// (XLA's DotMerger does this for products that share an operand.)
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

// Above it a product is bound by its multiply-adds, whatever stands beside it.
inline constexpr int64_t kFewRows = 64;

absl::Status MergeProducts(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
