// passes/quantized_weights.h - recognises products whose weights are widened from 8 bits first.
//   %1 = cast %w : bf16[N,K] ; %2 = mul %1, %s[N,1]
//   %3 = matmul %x, %2 {transpose_b}     ==>     %3 = matmul_quantized %x, %w, %s as [1,N]
// The weights may be split into groups ([N, K / group, group] under a scale [N, K / group, 1]),
// have zero points taken off before the scale or values added behind it, and be cast on the way:
// what such a cast would round stays unrounded, and factors are joined in f32. Only products of few
// rows, which are bound by reading weights. Needs: simplified form. Leaves unused nodes for
// canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status RecogniseQuantizedWeights(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
