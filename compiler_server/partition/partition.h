// A training graph -> a forward and a backward graph, and what the one saves for the other.
//
// What depends on a tangent is backward, what a returned value or a mutation needs is forward. The
// values that the backward reads of the rest are saved or computed again, whichever moves fewer
// bytes: a minimum cut through the values (as PyTorch's min_cut_rematerialization_partition). Never
// computed again: matrix products, convolutions, attention, reductions, sorts, whatever runs as an
// ATen call (it may draw random numbers), and what writes an input's memory.
//
// Runs between `attention` and the passes that lay out memory, on canonical IR: elementwise ops and
// views are cheap there and seen one by one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

struct PartitionedGraph {
  // Inputs and outputs of the training graph without tangents and gradients, in their order; behind
  // the outputs, what is saved and not returned.
  ir::Graph forward;
  // Inputs: saved values, donated if the caller does not get them, then tangents in the order of
  // the pairs. Outputs: gradients in their order.
  ir::Graph backward;
  std::vector<uint32_t> saved;  // output of `forward` that is input i of `backward`
  uint32_t returned = 0;  // outputs of `forward` that the caller gets; the others are saved only
};

// `graph` has gradients. It stays as it is.
absl::StatusOr<PartitionedGraph> Partition(const ir::Graph& graph);

}  // namespace hpu::compiler
