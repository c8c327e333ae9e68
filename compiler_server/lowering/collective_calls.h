// Calls of PyTorch's functional collectives (torch.ops._c10d_functional): which steps of a program
// they become.
#pragma once

#include <optional>

#include "compiler_server/ir/graph.h"
#include "program/steps.h"

namespace hpu::compiler {

// Returns the step of a collective without its tensors: the k-th output is the k-th result of the
// node, made of its k-th operand. Returns nullopt for calls that no step holds.
std::optional<CollectiveStep> CollectiveStepOf(const ir::Node& node);

}  // namespace hpu::compiler
