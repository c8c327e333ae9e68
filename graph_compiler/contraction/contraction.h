// Contractions as generated kernels: gemm, batch_gemm, products with quantised weights and of
// groups, convolution, its weight's gradient, attention and its gradient. The fusion pass hands
// over shapes, operand accesses and the epilogue; emission adds kernels to the module and returns
// launches (and packed operands) for the recipe.
#pragma once

#include <memory>

#include "base/status.h"
#include "graph_compiler/codegen/module.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// Emits identical kernels (same code, other operands) once per module: it keeps a cache whose key
// is everything that the code depends on. `n_kernels` counts the kernels added to the module so
// far.
class ContractionEmitter {
 public:
  explicit ContractionEmitter(KernelModule& module);
  ~ContractionEmitter();
  absl::StatusOr<EmittedKernels> EmitGemm(const GemmSpec& spec);
  absl::StatusOr<EmittedKernels> EmitQuantizedGemm(const QuantizedGemmSpec& spec);
  absl::StatusOr<EmittedKernels> EmitGroupedGemm(const GroupedGemmSpec& spec);
  absl::StatusOr<EmittedKernels> EmitConv(const ConvSpec& spec);
  absl::StatusOr<EmittedKernels> EmitWeightGradient(const WeightGradientSpec& spec);
  absl::StatusOr<EmittedKernels> EmitAttention(const AttentionSpec& spec);
  absl::StatusOr<EmittedKernels> EmitAttentionBackward(const AttentionBackwardSpec& spec);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hpu::graph_compiler
