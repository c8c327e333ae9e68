// Makes strides explicit, so that everything between the borders is row-major. Here %0 is the
// memory of %x in its own order:
//   graph(%x: f32[2,3,4,4]{48,1,12,3})            %0 = as_strided %x : f32[2,4,4,3]
//     %0 = relu %x                          ==>   %1 = permute %0 {perm = [0,3,1,2]} ; %2 = relu %1
// The same happens to the results of ATen calls. Storages become row-major: a permute before them
// gives their memory order, and the views of the outputs stay the same. A mutation with gaps writes
// a row-major value to a strided region. ATen calls still read the strided value.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status MakeMemoryExplicit(ir::Graph& graph, const PassContext& context);

// Gives operands of ATen calls the layout that they had when the calls were captured
// (AtenCall::strides). This makes a copy that decompositions left out because values of the IR are
// row-major.
//   %1 = permute %0 ; aten "aten.view.dtype"(self = %1{3,1})
//   ==>  %2 = reshape %1 : the same sizes, which the segmentation computes ; ... (self = %2)
absl::Status LayOutEagerOperands(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
