// Checks everything that passes and lowering rely on, in one walk. Messages name the node, its
// source line and, in brackets, the constraint of docs/ir.md.
#pragma once

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

absl::Status Verify(const Graph& graph);
// Checks that element type, rank, sizes and strides are in range.
absl::Status CheckType(const TensorType& type);

}  // namespace hpu::ir
