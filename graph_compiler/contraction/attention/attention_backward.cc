#include "graph_compiler/contraction/attention/attention_backward.h"

#include <algorithm>
#include <numeric>

#include "graph_compiler/contraction/attention/attention.h"
#include "graph_compiler/contraction/attention/attention_backward_task.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace attention_backward {
namespace {

constexpr int64_t kQueriesPerBlock = 64;
constexpr int64_t kKeysPerBlock = 120;  // with as many queries, weights and slopes take 60 KiB
constexpr int64_t kAttentionTasksWanted = 16;
constexpr int64_t kJoinRows = 64;
constexpr int64_t kSlopeSlackFloats = 64;  // tiles may read past the last row of slopes
constexpr int kMostVectors = 4;
constexpr int64_t kWidePairs = 32;  // a row of pairs is written by this many elements

bool TakesPairs(const TargetInfo& target, const AttentionBackwardSpec& spec) {
  return LiesInPairs(target, spec.forward) && spec.forward.dv % 2 == 0 &&
         spec.out_gradient_strides[3] == 1 && spec.out_gradient_strides[2] % 2 == 0;
}

}  // namespace

Features::Features(const TargetInfo& target, int64_t count, int most_vectors)
    : size(count),
      vectors(ChoosePanelVectors(target, count, most_vectors)),
      rows(MaxTileRows(target, vectors)),
      cols(static_cast<int64_t>(vectors) * target.f32_lanes),
      panels(CeilDiv(size, cols)),
      width(panels * cols) {}

Plan::Plan(const TargetInfo& target, const AttentionBackwardSpec& gradient)
    : units(gradient.forward.batch * gradient.forward.heads / gradient.forward.kv_repeat),
      d(target, gradient.forward.d, TakesPairs(target, gradient) ? kAmxVectors : kMostVectors),
      dv(target, gradient.forward.dv, TakesPairs(target, gradient) ? kAmxVectors : kMostVectors),
      mask(MaskOf(gradient.forward)),
      pairs(TakesPairs(target, gradient)) {
  const AttentionSpec& spec = gradient.forward;
  amx = pairs && target.amx_bf16 && AmxDepth(spec.d / 2) > 0 && AmxDepth(spec.dv / 2) > 0;
  query_vectors = ChoosePanelVectors(target, std::min(spec.m, kQueriesPerBlock),
                                     pairs ? kAmxVectors : kMostVectors);
  query_cols = static_cast<int64_t>(query_vectors) * target.f32_lanes;
  query_block = RoundUp(std::min(spec.m, kQueriesPerBlock), query_cols);
  query_blocks = CeilDiv(spec.m, query_block);
  splits =
      std::clamp<int64_t>(CeilDiv(kAttentionTasksWanted, units), 1, spec.kv_repeat * query_blocks);
  key_rows = MaxTileRows(target, query_vectors);
  if (amx) key_rows = d.rows = dv.rows = kAmxHalves * kAmxRows;
  key_step = std::lcm(std::lcm(key_rows, kRowsAtOnce), std::lcm(d.rows, dv.rows));
  key_block = kKeysPerBlock;
  EvenBlocks(spec.n, key_block);
  key_block = RoundUp(key_block, key_step);
  keys = RoundUp(spec.n, key_block);
  join_rows = kJoinRows;
  join_blocks = EvenBlocks(spec.n, join_rows);
  query_sums = query_block * d.width;
  key_stride = d.width * 4;
  value_stride = dv.width * 4;
  if (!pairs) return;
  feature_rows = static_cast<int>(CeilDiv(spec.d, CeilDiv(spec.d, key_rows)));
  query_sums = query_block * RoundUp(spec.d, feature_rows);
  key_stride = RoundUp(spec.d, kWidePairs) * 2;
  value_stride = RoundUp(spec.dv, kWidePairs) * 2;
  column_stride = RoundUp(keys, kWidePairs) + kWidePairs;
}

Scratch::Scratch(const Plan& plan) {
  int64_t at = 0;
  const auto place = [&](int64_t floats) {
    const int64_t offset = at;
    at += RoundUp(floats * 4, 64);
    return offset;
  };
  const int64_t own_sums = plan.splits == 1 ? plan.keys : 0;
  keys = place(plan.keys * plan.key_stride / 4);
  values = place(plan.keys * plan.value_stride / 4);
  // A row of pairs takes half a float per element.
  key_columns =
      place(plan.pairs ? RoundUp(plan.d.size, plan.feature_rows) * plan.column_stride / 2 : 0);
  key_gradients = place(own_sums * plan.d.width);
  value_gradients = place(own_sums * plan.dv.width);
  query_rows = place(plan.query_block * plan.d.width / (plan.pairs ? 2 : 1));
  out_rows = place(plan.query_block * plan.dv.width);
  out_factors = plan.pairs ? place(plan.query_block * plan.dv.width / 2) : out_rows;
  query_panels = place(plan.query_block * plan.d.size);
  out_panels = place(plan.query_block * plan.dv.size);
  result_rows = place(plan.query_block * plan.dv.width);
  query_gradients = place(RoundUp(plan.query_block, plan.d.rows) * plan.d.width);
  query_sums = plan.pairs ? place(plan.query_sums) : query_gradients;
  weights = place(plan.key_block * plan.query_block);
  slopes = place(plan.key_block * plan.query_block + kSlopeSlackFloats);
  slope_pairs = place(plan.pairs ? plan.key_block * plan.query_block / 2 : 0);
  mask = place(plan.mask == AttentionMask::kPerQuery ? plan.key_block * plan.query_block : 0);
  maximum = place(plan.query_block);
  inverse = place(plan.query_block);
  dots = place(plan.query_block);
  total = at;
}

namespace {

AttentionBackwardSpec Bound(const AttentionBackwardSpec& spec) {
  AttentionBackwardSpec bound = spec;
  bound.forward = WithBoundOffsets(spec.forward);
  const MemoryType type = spec.forward.type;
  BindOffset(bound.out_gradient, bound.out_gradient_offset, type);
  BindOffset(bound.q_gradient, bound.q_gradient_offset, type);
  BindOffset(bound.k_gradient, bound.k_gradient_offset, type);
  BindOffset(bound.v_gradient, bound.v_gradient_offset, type);
  return bound;
}

KernelKey KeyOf(const char* kind, const AttentionBackwardSpec& spec) {
  KernelKey key(kind);
  AddToKey(key, spec.forward);
  key.Add(spec.forward.batch);
  for (const int64_t* strides : {spec.out_gradient_strides, spec.q_gradient_strides,
                                 spec.k_gradient_strides, spec.v_gradient_strides}) {
    for (int i = 0; i < 4; ++i) key.Add(strides[i]);
  }
  return key;
}

KernelLaunch MakeLaunch(const AttentionBackwardSpec& spec, const OperandRef& partial) {
  const AttentionSpec& forward = spec.forward;
  KernelLaunch launch = AttentionLaunch(forward);
  launch.operands.insert(launch.operands.end(), {spec.out_gradient, spec.q_gradient,
                                                 spec.k_gradient, spec.v_gradient, partial});
  if (forward.Drops()) {
    launch.operands.insert(launch.operands.end(), {forward.seed, forward.offset, forward.base});
  }
  const int64_t scores =
      forward.batch * forward.heads * forward.m * forward.n / (forward.causal ? 2 : 1);
  launch.flops = static_cast<uint64_t>(2 * scores * (3 * forward.d + 2 * forward.dv));
  launch.bytes *= 2;
  return launch;
}

}  // namespace
}  // namespace attention_backward

absl::StatusOr<EmittedKernels> EmitAttentionBackwardKernels(KernelCache& cache,
                                                            const AttentionBackwardSpec& spec) {
  using namespace attention_backward;
  RETURN_IF_ERROR(CheckAttention(spec.forward));
  if (!spec.forward.HasStatistics()) {
    return InvalidArgument(spec.forward.name, ": the gradient of attention needs its statistics");
  }
  EmittedKernels out;
  const AttentionSpec& sizes = spec.forward;
  if (sizes.batch == 0 || sizes.heads == 0) return out;
  if (sizes.m == 0 || sizes.n == 0 || sizes.d == 0 || sizes.dv == 0) {
    return Unimplemented(sizes.name, ": gradient of attention over nothing");
  }
  const AttentionBackwardSpec bound = Bound(spec);
  const TargetInfo& target = cache.module().target();
  const Plan plan(target, bound);
  OperandRef partial;
  if (plan.splits > 1) {
    partial = {OperandRef::Kind::kWorkspace, kExtraWorkspace, 0};
    out.workspace_bytes =
        static_cast<uint64_t>(plan.units * plan.splits * plan.partial_floats() * 4);
  }
  KernelLaunch launch = MakeLaunch(bound, partial);
  launch.tasks = static_cast<uint64_t>(plan.units * plan.splits);
  launch.scratch_bytes = static_cast<uint64_t>(attention_backward::Scratch(plan).total);
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry =
      cache.GetOrAdd(KeyOf("attention_backward", bound), "attention_backward",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                       const auto make = plan.pairs ? MakePairsTask : MakeF32Task;
                       make(builder, target, frame, bound, plan)->Emit(task);
                     });
  out.launches.push_back(launch);
  if (plan.splits == 1) return out;
  KernelLaunch join = MakeLaunch(bound, partial);
  join.tasks = static_cast<uint64_t>(plan.units * plan.join_blocks);
  join.bytes = out.workspace_bytes;
  join.flops = join.bytes / 4;
  join.grain = ChooseGrain(join.tasks, join.flops);
  join.entry =
      cache.GetOrAdd(KeyOf("attention_backward_join", bound), "attention_backward_join",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                       EmitJoin(builder, target, frame, bound, plan, task);
                     });
  out.launches.push_back(std::move(join));
  return out;
}

}  // namespace hpu::graph_compiler
