#include "graph_compiler/contraction/contraction.h"

#include "graph_compiler/contraction/attention/attention.h"
#include "graph_compiler/contraction/attention/attention_backward.h"
#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/gemm/grouped_gemm.h"
#include "graph_compiler/contraction/gemm/quantized_weights.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {

struct ContractionEmitter::State {
  KernelCache cache;
};

ContractionEmitter::ContractionEmitter(KernelModule& module)
    : state_(new State{KernelCache(module)}) {}

ContractionEmitter::~ContractionEmitter() = default;

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitGemm(const GemmSpec& spec) {
  return EmitGemmKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitQuantizedGemm(
    const QuantizedGemmSpec& spec) {
  return EmitQuantizedGemmKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitGroupedGemm(const GroupedGemmSpec& spec) {
  return EmitGroupedGemmKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitConv(const ConvSpec& spec) {
  return EmitConvKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitWeightGradient(
    const WeightGradientSpec& spec) {
  return EmitWeightGradientKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitAttention(const AttentionSpec& spec) {
  return EmitAttentionKernels(state_->cache, spec);
}

absl::StatusOr<EmittedKernels> ContractionEmitter::EmitAttentionBackward(
    const AttentionBackwardSpec& spec) {
  return EmitAttentionBackwardKernels(state_->cache, spec);
}

}  // namespace hpu::graph_compiler
