// Elementwise producers move into their consumers:
//
//   t = a + b                          y = exp((a + b) * 2)
//   y = exp(t * 2)            =>
//
// A producer is inlined when that takes it out of the graph altogether and either it has a single
// reader or computing it again costs less than storing and loading it.
#pragma once

#include "graph_compiler/fusion/fusion_state.h"

namespace hpu::graph_compiler {

enum class InlineScope {
  kConstants,  // only producers that read nothing (constants, ranges)
  kWidened,  // only producers that widen (the result of a product keeps its narrow type in memory)
  kAll,
};
void InlineMaps(FusionState& state, InlineScope scope);

}  // namespace hpu::graph_compiler
