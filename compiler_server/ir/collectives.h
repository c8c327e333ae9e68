// Finds the nodes that are calls of PyTorch's functional collectives (torch.ops._c10d_functional).
#pragma once

#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// True for calls that all ranks of a group must make in the same order, also if one of them does
// not read the result.
bool IsCollective(const Node& node);

// True for `wait_tensor` and `wait_tensors`, whose results are their operands after the collectives
// that make these have ended.
bool IsCollectiveWait(const Node& node);

}  // namespace hpu::ir
