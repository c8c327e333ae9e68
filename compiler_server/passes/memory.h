// passes/memory.h - makes strides explicit, so that everything between the borders is row-major.
//   graph(%x: f32[2,3,4,4]{48,1,12,3})            %0 = as_strided %x : f32[2,4,4,3]   (the memory
//   as it lies)
//     %0 = relu %x                          ==>   %1 = permute %0 {perm = [0,3,1,2]} ; %2 = relu %1
// The same for results of ATen calls. Storages become row-major: a permute in front of them gives
// their memory order, and the outputs' views stay as they are. Mutations that are no dense region
// become a write of the whole memory through as_strided_scatter. ATen calls go on reading the
// strided value.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status MakeMemoryExplicit(ir::Graph& graph, const PassContext& context);

// Operands of ATen calls lie in memory as the calls were captured with them (AtenCall::strides): a
// copy that decompositions left out, because values of the IR are row-major, is made after all.
//   %1 = permute %0 ; aten "aten.view.dtype"(self = %1{3,1})
//   ==>  %2 = reshape %1 : the same sizes, which the segmentation computes ; ... (self = %2)
absl::Status LayOutEagerOperands(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
