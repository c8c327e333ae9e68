// The forms of attention's products.
//
//   f32     S^T = K Q^T and O = P V as f32, whatever the operands are in memory
//   pairs   bf16: S^T = K Q^T with K in place, O^T = V^T P^T; both multiply pairs of bf16 as
//           AVX512_BF16 and AMX do (micro_kernel.h, amx_tiles.h). Weights are rounded to bf16
//           there, as PyTorch's own kernel does; their sums are not
#pragma once

#include <memory>

#include "graph_compiler/contraction/attention/attention_task.h"

namespace hpu::graph_compiler {

std::unique_ptr<AttentionTask> MakeF32Attention(llvm::IRBuilder<>& builder,
                                                const TargetInfo& target, const KernelFrame& frame,
                                                const AttentionSpec& spec,
                                                const AttentionPlan& plan);
std::unique_ptr<AttentionTask> MakePairsAttention(llvm::IRBuilder<>& builder,
                                                  const TargetInfo& target,
                                                  const KernelFrame& frame,
                                                  const AttentionSpec& spec,
                                                  const AttentionPlan& plan);

}  // namespace hpu::graph_compiler
