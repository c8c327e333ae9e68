// Products of dequantised operands calculate with the integers:
//
//   %a = (f32(%x) - zx) * sx          x: u8
//   %b = (f32(%w) - zw[n]) * sw[n]    w: i8, which no node writes
//   %y = gemm %a, %b                       ==>   %y = f32(gemm %x, %w, zeros zx, zw) * (sx * sw[n])
//
// The integers' sums are exact, so results differ from those of f32 by its roundings. What x and w
// pass on their way (copies, permutations) is seen through where it is one affine walk.
#pragma once

#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

// Before epilogues are fused, which would store dequantised results.
void UseIntegerProducts(FusionState& state);

}  // namespace hpu::graph_compiler
