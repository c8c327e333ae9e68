// Turns captured ATen calls into IR ops.
//   %2 = aten "aten.addmm.default"(%b, %x, %w)   ==>   %0 = matmul %x, %w ; %1 = add %0, %b
// A call stays an `aten` node, with the reason in AtenCall::reason, if its target is unknown, if an
// argument is unusual, or if a recipe could not hold one of the ops that it would become
// (PassContext::accept). This precedes all passes that look into ops: they see IR ops, and the
// remaining calls as opaque.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status Decompose(ir::Graph& graph, const PassContext& context);

// Every target that Decompose knows, sorted. A test compares them with proto/ops.yaml.
std::vector<std::string_view> DecomposedTargets();

}  // namespace hpu::compiler
