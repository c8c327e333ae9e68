// Control edges of a graph as phases: all kernels of a phase run before those of the next, and
// nodes of different phases are never fused.
//
//   blocking -> blocked (control edge):      the blocked node is in a later phase
//   producer -> consumer (data):             the consumer is in the same phase or a later one
//   reader -> writer of shared memory:       likewise, unless a way that contains a control edge
//   leads
//                                            from the writer to the reader, which then sees what
//                                            was written. Without one, reads come before the write.
//
// Nodes run in the latest phase that this allows, beside those that use their results.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph_compiler/ir/graph_desc.h"

namespace hpu::graph_compiler {

struct Phases {
  std::vector<uint32_t> of_node;  // by node of the GraphDesc
  uint32_t count = 1;
  // By tensor: persistent, and some node writes memory that it shares with another tensor.
  std::vector<bool> overwritten;
};

// One phase if the graph has no control edge. INVALID_ARGUMENT: the edges contradict each other.
absl::StatusOr<Phases> PlanPhases(const GraphDesc& graph);

}  // namespace hpu::graph_compiler
