// Products read f32 weights and round them themselves where a map would round a copy for them
// (autocast):
//
//   %c = bf16(%w)              w: f32, which lies in memory anyway
//   %y = gemm %x, %c     ==>   %y = gemm %x, f32>bf16 %w
//
// The copy was read only once, to be packed into panels, and the panels cost as much memory again.
#pragma once

#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

void ReadRoundedWeights(FusionState& state);

}  // namespace hpu::graph_compiler
