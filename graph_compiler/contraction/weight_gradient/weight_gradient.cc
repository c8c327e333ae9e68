#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

#include <algorithm>
#include <optional>

#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

absl::Status Check(const WeightGradientSpec& spec) {
  const ConvSpec& conv = spec.conv;
  if (!IsFactorType(conv.x_type) || !IsFactorType(spec.dy_type)) {
    return Unimplemented(conv.name, ": operands of a weight's gradient must be f32, bf16 or f16");
  }
  if (conv.groups < 1 || conv.in_c % conv.groups != 0 || conv.out_c % conv.groups != 0) {
    return InvalidArgument(conv.name, ": ", conv.groups, " groups do not divide ", conv.in_c,
                           " input and ", conv.out_c, " output channels");
  }
  if (conv.batch < 1 || conv.out_h < 1 || conv.out_w < 1 || conv.in_c < 1) {
    return Unimplemented(conv.name, ": gradient of a weight by no position or channel");
  }
  return absl::OkStatus();
}

KernelKey PlanKey(const std::string& kind, const WeightGradientSpec& spec,
                  const WeightGradientPlan& plan) {
  KernelKey key = ConvKey(kind, spec.conv, plan.cut);
  for (const int64_t value :
       {plan.panel_cols, plan.panels, plan.channel_tiles, int64_t{plan.rows}, plan.tiles_per_row,
        plan.unit_rows, plan.group_size, plan.channel_tiles_per_task, plan.panels_per_task,
        plan.images, plan.image_blocks, plan.chunks_per_split, plan.splits,
        int64_t{plan.joined_columns}, int64_t{plan.lanes}, int64_t{plan.runs.depth},
        plan.runs.pairs, int64_t{plan.runs.joined_rows}, spec.conv.batch}) {
    key.Add(value);
  }
  return key;
}

KernelLaunch SumPositions(KernelCache& cache, const WeightGradientSpec& spec,
                          const WeightGradientPlan& plan) {
  const ConvSpec& conv = spec.conv;
  KernelLaunch launch;
  launch.operands = conv.epilogue_operands;
  launch.tasks = static_cast<uint64_t>(plan.tasks(conv));
  launch.engine = Engine::kMme;
  launch.name = conv.name;
  const int64_t positions = conv.batch * conv.out_h * conv.out_w;
  const int64_t weights = conv.kernel_h * conv.kernel_w * conv.in_c / conv.groups * conv.out_c;
  launch.flops = static_cast<uint64_t>(2 * positions * weights);
  launch.bytes = static_cast<uint64_t>(
      conv.batch * conv.in_h * conv.in_w * conv.in_c * MemoryTypeSize(conv.x_type) +
      positions * conv.out_c * MemoryTypeSize(spec.dy_type) + weights * 4 * plan.splits);
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.scratch_bytes = static_cast<uint64_t>(GradientTask::ScratchBytes(spec, plan));
  KernelKey key = PlanKey("weight_gradient", spec, plan);
  key.Add(spec.dy_type);
  for (const int64_t stride : spec.dy_strides) key.Add(stride);
  launch.entry =
      cache.GetOrAdd(key, "weight_gradient",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       IrEmitter e(builder, cache.module().target());
                       GradientTask gradient(e, frame, spec, plan, task);
                       if (plan.runs.pairs > 0) {
                         EmitPairsGradient(e, frame, gradient, spec, plan);
                       } else if (plan.lanes) {
                         EmitLanesGradient(e, gradient, spec, plan);
                       } else {
                         EmitTiledGradient(e, gradient, spec, plan);
                       }
                     });
  return launch;
}

// Operand 0 holds the partial sums.
KernelLaunch JoinSplits(KernelCache& cache, const WeightGradientSpec& spec,
                        const WeightGradientPlan& plan) {
  const ConvSpec& conv = spec.conv;
  KernelLaunch launch;
  launch.operands = conv.epilogue_operands;
  launch.tasks = static_cast<uint64_t>(plan.units(conv));
  launch.engine = Engine::kMme;
  launch.name = conv.name + "_join";
  launch.bytes =
      static_cast<uint64_t>(plan.units(conv) * plan.unit_floats(conv) * 4 * (plan.splits + 1));
  launch.grain = ChooseGrain(launch.tasks, launch.bytes);
  launch.scratch_bytes = static_cast<uint64_t>(FinishBytes(conv, plan));
  launch.entry = cache.GetOrAdd(
      PlanKey("weight_gradient_join", spec, plan), "weight_gradient_join",
      [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, cache.module().target());
        const Values index =
            e.Decompose(task, {plan.groups(conv), plan.channel_tiles, plan.panels});
        Value* sums = e.Address(frame.Operand(builder, 0),
                                e.Mul(task, plan.splits * plan.unit_floats(conv) * 4));
        FinishUnit(e, frame, conv, plan, {index[0], index[1], index[2]}, sums, plan.splits,
                   frame.scratch);
      });
  return launch;
}

// Weights of at least this size have blocks for many threads without splitting positions.
constexpr int64_t kWeightsWorthAProduct = 128 * 1024;

// Returns whether the pixels of all images are rows of one matrix.
bool AreRows(const int64_t* strides, int64_t height, int64_t width, int64_t batch) {
  return (height == 1 || strides[1] == width * strides[2]) &&
         (batch == 1 || strides[0] == height * width * strides[2]);
}

// The gradient of a large 1 x 1 weight is one product of matrices.
std::optional<GemmSpec> AsProduct(const WeightGradientSpec& spec) {
  const ConvSpec& conv = spec.conv;
  const bool pointwise = conv.kernel_h == 1 && conv.kernel_w == 1 && conv.stride_h == 1 &&
                         conv.stride_w == 1 && conv.pad_top == 0 && conv.pad_left == 0 &&
                         conv.groups == 1 && conv.in_h == conv.out_h && conv.in_w == conv.out_w;
  if (!pointwise || conv.in_c * conv.out_c < kWeightsWorthAProduct) return std::nullopt;
  if (!AreRows(conv.x_strides, conv.in_h, conv.in_w, conv.batch)) return std::nullopt;
  if (!AreRows(spec.dy_strides, conv.in_h, conv.in_w, conv.batch)) return std::nullopt;
  GemmSpec gemm;
  gemm.m = conv.out_c;
  gemm.n = conv.in_c;
  gemm.k = conv.batch * conv.in_h * conv.in_w;
  gemm.name = conv.name;
  gemm.a.buffer = spec.dy;
  gemm.a.type = spec.dy_type;
  gemm.a.offset = spec.dy_offset;
  gemm.a.row_stride = spec.dy_strides[3];
  gemm.a.col_stride = spec.dy_strides[2];
  gemm.b.buffer = conv.x;
  gemm.b.type = conv.x_type;
  gemm.b.offset = conv.x_offset;
  gemm.b.row_stride = conv.x_strides[2];
  gemm.b.col_stride = conv.x_strides[3];
  gemm.epilogue = conv.epilogue;
  gemm.epilogue_operands = conv.epilogue_operands;
  // (kernel row, kernel column, c, ko) becomes (ko, c).
  const auto turn = [](Access& access) { access.strides = {access.strides[3], access.strides[2]}; };
  for (BodyOp& op : gemm.epilogue.ops) {
    if (op.op == Opcode::kIndex) return std::nullopt;
    if (op.op == Opcode::kLoad) turn(op.access);
  }
  for (Store& store : gemm.epilogue.stores) turn(store.access);
  return gemm;
}

}  // namespace

absl::StatusOr<EmittedKernels> EmitWeightGradientKernels(KernelCache& cache,
                                                         const WeightGradientSpec& spec) {
  EmittedKernels out;
  if (spec.conv.out_c == 0) return out;
  RETURN_IF_ERROR(Check(spec));
  if (const auto gemm = AsProduct(spec)) return EmitGemmKernels(cache, *gemm);
  WeightGradientSpec bound = spec;
  ConvSpec& conv = bound.conv;
  conv.x.offset += static_cast<uint64_t>(conv.x_offset * MemoryTypeSize(conv.x_type));
  bound.dy.offset += static_cast<uint64_t>(spec.dy_offset * MemoryTypeSize(spec.dy_type));
  conv.x_offset = bound.dy_offset = 0;
  const WeightGradientPlan plan = PlanWeightGradient(cache.module().target(), bound);
  const auto bind = [&](std::vector<OperandRef> operands) {
    conv.epilogue = BindEpilogue(spec.conv.epilogue, spec.conv.epilogue_operands, operands);
    conv.epilogue_operands = std::move(operands);
  };
  if (plan.splits == 1) {
    bind({conv.x, bound.dy});
    out.launches.push_back(SumPositions(cache, bound, plan));
    return out;
  }
  const OperandRef partial{OperandRef::Kind::kWorkspace, kExtraWorkspace, 0};
  out.workspace_bytes = static_cast<uint64_t>(
      RoundUp(plan.units(conv) * plan.splits * plan.unit_floats(conv) * 4, 128));
  conv.epilogue_operands = {conv.x, bound.dy, partial};
  out.launches.push_back(SumPositions(cache, bound, plan));
  bind({partial});
  out.launches.push_back(JoinSplits(cache, bound, plan));
  return out;
}

}  // namespace hpu::graph_compiler
