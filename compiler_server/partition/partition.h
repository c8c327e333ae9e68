// Splits a training graph into a forward and a backward graph, and decides what the forward saves
// for the backward.
//
// A value that depends on a tangent belongs to the backward; a returned value or a mutation needs
// the forward. The other values that the backward reads are saved or computed again, whichever
// moves fewer bytes. A minimum cut through the values decides (as in PyTorch's
// min_cut_rematerialization_partition). Matrix products, convolutions, attention, reductions,
// sorts, ATen calls (which may draw random numbers) and whatever writes an input's memory are never
// computed again.
//
// This runs on canonical IR, between `attention` and the passes that lay out memory: there,
// elementwise ops and views are cheap and separate nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

struct PartitionedGraph {
  // The inputs and outputs of the training graph without tangents and gradients, in their order.
  // After the outputs come the values that are saved and not returned.
  ir::Graph forward;
  // Its inputs are the saved values, donated if the caller does not get them, and then the tangents
  // in the order of the pairs. Its outputs are the gradients in their order.
  ir::Graph backward;
  std::vector<uint32_t> saved;  // the output of `forward` that is input i of `backward`
  uint32_t returned = 0;  // outputs of `forward` that the caller gets; the others are only saved
};

// `graph` must have gradients. It is not changed.
absl::StatusOr<PartitionedGraph> Partition(const ir::Graph& graph);

}  // namespace hpu::compiler
