// Turns nodes of the matrix engine into specs for contraction/.
#pragma once

#include <functional>

#include "graph_compiler/contraction/tiles/specs.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// The place of a value, and whether nothing in the recipe writes there.
struct ValueHome {
  OperandRef ref;
  bool stable = false;
};
using FindHome = std::function<ValueHome(ValueId)>;

GemmSpec MakeGemmSpec(const LoopGraph& graph, const Node& node, const FindHome& home);
QuantizedGemmSpec MakeQuantizedGemmSpec(const LoopGraph& graph, const Node& node,
                                        const FindHome& home);
GroupedGemmSpec MakeGroupedGemmSpec(const LoopGraph& graph, const Node& node, const FindHome& home);
ConvSpec MakeConvSpec(const LoopGraph& graph, const Node& node, const FindHome& home);
WeightGradientSpec MakeWeightGradientSpec(const Node& node, const FindHome& home);
AttentionSpec MakeAttentionSpec(const Node& node, const FindHome& home);
AttentionBackwardSpec MakeAttentionBackwardSpec(const Node& node, const FindHome& home);

// Nodes with equal text are served by the same code.
std::string ContractionStructure(const LoopGraph& graph, const Node& node, const FindHome& home);

// Returns bf16 if everything that the contraction multiplies is bf16.
Factors FactorsOf(const Node& node);

}  // namespace hpu::graph_compiler
