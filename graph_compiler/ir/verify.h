// What holds of a loop graph between passes.
#pragma once

#include "base/status.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// INTERNAL, with node and reason, if a body refers to what is not there, an access has another rank
// than its node or leaves its value, a dimension is folded that stores walk, phases do not rise, or
// something is read that nobody has written.
absl::Status Verify(const LoopGraph& graph);

}  // namespace hpu::graph_compiler
