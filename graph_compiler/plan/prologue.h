// The prologue of a recipe: kernels that compute from weights and constants alone. They move to the
// front, and those of their results that the other kernels read are kept from launch to launch, so
// that a launch leaves the prologue out while the weights stay the same (Recipe::prologue):
//
//   kernel k1: scale = w * rsqrt(variance)      kernel k1     prologue, scale is kept
//   kernel k2: y = conv(x)                 =>   kernel k2
//   kernel k3: z = y * scale                    kernel k3
//
// Examples are norms of convolutions, biases of relative positions, projections of position
// embeddings, and masks. Exporters that treat weights as constants fold these for a served model;
// here they are computed again when a weight is written. Kept values cost memory: a map is taken
// only if its results are small or no larger than what it reads (so a quantised weight is never
// kept in full width), and all kept values together are limited to a share of the weights.
#pragma once

#include <vector>

#include "graph_compiler/plan/schedule.h"

namespace hpu::graph_compiler {

struct Prologue {
  size_t kernels = 0;       // the first kernels
  uint64_t kept_bytes = 0;  // of values whose home is now kKept; a multiple of 128
};

// `kernels` are in a valid order before and after the call.
Prologue MovePrologueFirst(LoopGraph& graph, std::vector<FusedKernel>& kernels);

}  // namespace hpu::graph_compiler
