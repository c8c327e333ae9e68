// Known numbers become part of the code: a load of one element of the recipe's constants, f32 or
// bf16, is replaced by the number. Instructions take it as an operand, and a maximum or minimum
// with a number that is not NaN is one instruction where it would otherwise be three.
#pragma once

#include <optional>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// Returns the number that the access gives everywhere in the domain, if it is known.
std::optional<float> KnownNumber(const LoopGraph& graph, const Shape& domain, const Access& access);

void ReadConstants(LoopGraph& graph);

}  // namespace hpu::graph_compiler
