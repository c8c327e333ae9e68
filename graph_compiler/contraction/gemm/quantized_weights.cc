#include "graph_compiler/contraction/gemm/quantized_weights.h"

#include "graph_compiler/contraction/gemm/quantized_gemm.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

absl::Status Check(const QuantizedGemmSpec& spec) {
  for (const MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) {
    if (IsFactorType(access->type)) continue;
    return Unimplemented(spec.name, ": operands beside the weights must be f32, bf16 or f16");
  }
  if (spec.m < 1 || spec.n < 1 || spec.k < 1 || spec.group < 1 || spec.k % spec.group != 0) {
    return InvalidArgument(spec.name, ": ", spec.k, " inner elements in groups of ", spec.group);
  }
  if (spec.half != 0 && spec.n % (2 * spec.half) != 0) {
    return InvalidArgument(spec.name, ": ", spec.n, " columns in blocks of ", 2 * spec.half);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EmittedKernels> EmitQuantizedGemmKernels(KernelCache& cache,
                                                        const QuantizedGemmSpec& given) {
  RETURN_IF_ERROR(Check(given));
  const TargetInfo& target = cache.module().target();
  QuantizedGemmSpec spec = given;
  const bool has_zero = QuantizedGemm::HasZero(spec);
  for (MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) FoldOffset(*access);
  std::vector<OperandRef> operands = {spec.x.buffer, spec.weights, spec.scale.buffer,
                                      spec.zero.buffer};
  spec.epilogue = BindEpilogue(given.epilogue, given.epilogue_operands, operands);

  KernelKey key("quantized_gemm");
  key.Add(spec.m).Add(spec.n).Add(spec.k).Add(spec.group).Add(spec.half).Add(spec.weight_stride);
  key.Add(QuantizedGemm::HasScale(spec)).Add(has_zero);
  for (const MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) {
    key.Add(access->type).Add(access->row_stride).Add(access->col_stride);
  }
  key.Add(spec.epilogue);

  KernelLaunch launch;
  launch.operands = std::move(operands);
  launch.tasks =
      static_cast<uint64_t>(CeilDiv(spec.n, QuantizedGemm::ColumnsPerTask(target, spec)));
  launch.scratch_bytes = QuantizedGemm::ScratchBytes(target, spec);
  launch.engine = Engine::kMme;
  launch.name = spec.name;
  launch.flops = 2 * static_cast<uint64_t>(spec.m * spec.n * spec.k);
  const int64_t weight_bytes = spec.n * spec.k / (spec.half != 0 ? 2 : 1);
  const int factors = QuantizedGemm::HasScale(spec) + has_zero;
  const int64_t factor_bytes = spec.k / spec.group * spec.n * MemoryTypeSize(spec.scale.type);
  launch.bytes = static_cast<uint64_t>(weight_bytes + factor_bytes * factors +
                                       spec.m * spec.k * MemoryTypeSize(spec.x.type)) +
                 EpilogueBytes(spec.epilogue, static_cast<uint64_t>(spec.m * spec.n));
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry =
      cache.GetOrAdd(key, "quantized_gemm",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                       const auto emit = spec.half != 0 ? EmitNibbleGemm : EmitByteGemm;
                       emit(builder, target, frame, spec, task);
                     });
  EmittedKernels out;
  out.launches.push_back(std::move(launch));
  return out;
}

}  // namespace hpu::graph_compiler
