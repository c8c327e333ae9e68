// Turns calls of the caller's own kernels into what a recipe says of them.
#pragma once

#include <functional>

#include "graph_compiler/ir/loop_graph.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// `node` is a CustomCall.
CustomKernel MakeCustomKernel(const Node& node);

// Returns the launch of the call without the number of its kernel. `place` returns where a value
// lies.
KernelLaunch MakeCustomLaunch(const Node& node, const std::function<OperandRef(ValueId)>& place);

}  // namespace hpu::graph_compiler
