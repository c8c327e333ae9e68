// Checks what must hold of a loop graph between passes.
#pragma once

#include "base/status.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// Returns INTERNAL, with node and reason, if a body refers to a value that does not exist, an
// access has another rank than its node or leaves its value, stores walk along a folded dimension,
// phases do not rise, or something is read that nothing has written.
absl::Status Verify(const LoopGraph& graph);

}  // namespace hpu::graph_compiler
