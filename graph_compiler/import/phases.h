// Turns the control edges of a graph into phases: all kernels of a phase run before those of the
// next, and nodes of different phases are never fused.
//
//   blocking -> blocked (control edge):   The blocked node is in a later phase.
//   producer -> consumer (data):          The consumer is in the same phase or a later one.
//   reader -> writer of shared memory:    The writer is in the same phase or a later one, unless a
//                                         path with a control edge leads from the writer to the
//                                         reader, which then sees what was written. Without such a
//                                         path, reads come before the write.
//
// Nodes run in the latest phase that this allows, beside the nodes that use their results.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "graph_compiler/ir/graph_desc.h"

namespace hpu::graph_compiler {

struct Phases {
  std::vector<uint32_t> of_node;  // by node of the GraphDesc
  uint32_t count = 1;
  // By tensor: true if it is persistent and some node writes memory that it shares with another
  // tensor.
  std::vector<bool> overwritten;
};

// Returns one phase if the graph has no control edge. Returns INVALID_ARGUMENT if the edges
// contradict each other.
absl::StatusOr<Phases> PlanPhases(const GraphDesc& graph);

}  // namespace hpu::graph_compiler
