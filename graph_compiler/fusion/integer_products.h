// Products of dequantised operands are computed on the integers:
//
//   %a = (f32(%x) - zx) * sx          x: u8
//   %b = (f32(%w) - zw[n]) * sw[n]    w: i8, which no node writes
//   %y = gemm %a, %b                       ==>   %y = f32(gemm %x, %w, zeros zx, zw) * (sx * sw[n])
//
// The sums of integers are exact, so results differ from f32 results by the roundings of f32.
// Copies and permutations between x or w and the product are seen through where they are one affine
// walk.
#pragma once

#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

// This must run before epilogues are fused, because they would store dequantised results.
void UseIntegerProducts(FusionState& state);

}  // namespace hpu::graph_compiler
