// The prologue of a recipe: kernels that compute from weights and constants alone. They move to the
// front, and what the other kernels read of their results is kept from launch to launch, so that a
// launch leaves them out while the weights stay (Recipe::prologue):
//
//   kernel k1: scale = w * rsqrt(variance)      kernel k1     prologue, scale is kept
//   kernel k2: y = conv(x)                 =>   kernel k2
//   kernel k3: z = y * scale                    kernel k3
//
// Norms of convolutions, biases of relative positions, projections of position embeddings, masks.
// Who serves a model has these folded by exporters that take weights for constants; here they
// follow when a weight is written. What is kept costs memory: a map is taken only if its results
// are small or no larger than what it reads (so nothing keeps a quantised weight in full width),
// and all of it is a share of the weights at most.
#pragma once

#include <vector>

#include "graph_compiler/plan/schedule.h"

namespace hpu::graph_compiler {

struct Prologue {
  size_t kernels = 0;       // the first ones
  uint64_t kept_bytes = 0;  // of values whose home is now kKept, a multiple of 128
};

// `kernels` are in a valid order and are so afterwards.
Prologue MovePrologueFirst(LoopGraph& graph, std::vector<FusedKernel>& kernels);

}  // namespace hpu::graph_compiler
