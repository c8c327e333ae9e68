// Recognises products whose weights are first widened from 8 bits.
//   %1 = cast %w : bf16[N,K] ; %2 = mul %1, %s[N,1]
//   %3 = matmul %x, %2 {transpose_b}     ==>     %3 = matmul_quantized %x, %w, %s as [1,N]
// The weights may be split into groups ([N, K / group, group] with a scale [N, K / group, 1]), have
// zero points subtracted before the scale or values added after it, and be cast in between: what
// such a cast would round stays unrounded, and factors are combined in f32. This applies only to
// products of few rows, whose time is bound by reading weights. The pass needs the simplified form
// and leaves unused nodes for canonicalize.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status RecogniseQuantizedWeights(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
