// Elementwise work on the result of a product or convolution moves onto its accumulators:
//
//   c = gemm(a, b); t = gelu(c + bias); y = t + residual
//   =>  gemm(a, b) with epilogue  y = gelu(acc + bias) + residual
//
// This is greedy and goes in order. A consumer is taken when it walks the result element for
// element and nothing else it reads depends on the product.
#pragma once

#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

void FuseEpilogues(FusionState& state);

}  // namespace hpu::graph_compiler
