#include "graph_compiler/contraction/attention/attention.h"

#include <algorithm>

#include "graph_compiler/contraction/attention/attention_forms.h"
#include "graph_compiler/contraction/attention/attention_rows.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kQueriesPerTask = 64;
constexpr int64_t kLongestKeyBlock = 128;  // the scores of a task are 32 KiB
constexpr int64_t kFoldedRows = 16;
constexpr int64_t kSlackBytes = 256;   // tiles may read past the last row of scores
constexpr int64_t kKeysPerGroup = 32;  // these become rows of pairs together

// Chooses blocks whose last one is not shorter than a tile, so that its last tile may move back and
// repeat some keys instead of reading keys that do not exist.
int64_t ChooseKeyBlock(int64_t n, int64_t shortest) {
  if (n <= kLongestKeyBlock) return n;
  int64_t block = kLongestKeyBlock;
  for (; block > 0; block -= kKeysPerGroup) {
    if (n % block == 0 || n % block >= shortest) return block;
  }
  block = kLongestKeyBlock;
  while (n % block != 0 && n % block < shortest) --block;
  return block;
}

// Returns row counts as even as tiles of at most `most` rows allow.
int EvenRows(int64_t rows, int most) {
  return static_cast<int>(CeilDiv(rows, CeilDiv(rows, most)));
}

void PlanPairs(const TargetInfo& target, const AttentionSpec& spec, AttentionPlan& plan) {
  plan.pairs = true;
  const int64_t used_rows = std::min(plan.rows, kQueriesPerTask);
  plan.query_vectors = ChoosePanelVectors(target, used_rows, kAmxVectors);
  if (target.amx_bf16) {
    plan.score_depth = AmxDepth(spec.d / 2);
    const int64_t keys = RoundUp(std::min(spec.n, kLongestKeyBlock), kWeightsAtOnce);
    plan.value_depth = AmxDepthFilledUp(keys / 2);
  }
}

}  // namespace

bool LiesInPairs(const TargetInfo& target, const AttentionSpec& spec) {
  return target.avx512_bf16 && spec.type == MemoryType::kBF16 && spec.d % 2 == 0 &&
         spec.q_strides[3] == 1 && spec.q_strides[2] % 2 == 0 && spec.k_strides[3] == 1;
}

absl::Status CheckAttention(const AttentionSpec& spec) {
  if (!IsFactorType(spec.type)) {
    return Unimplemented(spec.name, ": attention operands must be f32, bf16 or f16");
  }
  if (spec.mask.kind != OperandRef::Kind::kNull && !IsFactorType(spec.mask_type) &&
      spec.mask_type != MemoryType::kBool) {
    return Unimplemented(spec.name, ": attention mask must be f32, bf16, f16 or bool");
  }
  if (spec.kv_repeat < 1 || spec.heads % spec.kv_repeat != 0) {
    return InvalidArgument(spec.name, ": ", spec.heads, " heads cannot share key heads by ",
                           spec.kv_repeat);
  }
  return absl::OkStatus();
}

void BindOffset(OperandRef& ref, int64_t& offset, MemoryType type) {
  if (ref.kind == OperandRef::Kind::kNull) return;
  ref.offset += static_cast<uint64_t>(offset * MemoryTypeSize(type));
  offset = 0;
}

AttentionSpec WithBoundOffsets(const AttentionSpec& spec) {
  AttentionSpec bound = spec;
  BindOffset(bound.q, bound.q_offset, spec.type);
  BindOffset(bound.k, bound.k_offset, spec.type);
  BindOffset(bound.v, bound.v_offset, spec.type);
  BindOffset(bound.out, bound.out_offset, spec.type);
  BindOffset(bound.mask, bound.mask_offset, spec.mask_type);
  return bound;
}

AttentionPlan PlanAttention(const TargetInfo& target, const AttentionSpec& spec) {
  AttentionPlan plan;
  const bool has_mask = spec.mask.kind != OperandRef::Kind::kNull;
  const bool mask_per_head = has_mask && spec.mask_strides[1] != 0;
  plan.mask = MaskOf(spec);
  plan.folds_heads = spec.kv_repeat > 1 && spec.m * spec.kv_repeat <= kFoldedRows &&
                     plan.mask != AttentionMask::kPerQuery && !mask_per_head &&
                     !spec.HasStatistics() && !spec.Drops();
  plan.rows = plan.folds_heads ? spec.m * spec.kv_repeat : spec.m;
  plan.query_vectors = ChoosePanelVectors(target, std::min(plan.rows, kQueriesPerTask));
  if (!plan.folds_heads && LiesInPairs(target, spec)) PlanPairs(target, spec, plan);
  plan.query_cols = static_cast<int64_t>(plan.query_vectors) * target.f32_lanes;
  const int64_t blocks = CeilDiv(plan.rows, kQueriesPerTask);
  plan.query_block = RoundUp(CeilDiv(plan.rows, blocks), plan.query_cols);
  plan.query_blocks = CeilDiv(plan.rows, plan.query_block);

  constexpr int kMostAmxRows = kAmxHalves * kAmxRows;
  const int max_tile_rows = MaxTileRows(target, plan.query_vectors);
  const int max_key_rows = plan.score_depth > 0 ? kMostAmxRows : max_tile_rows;
  plan.key_block = ChooseKeyBlock(spec.n, max_key_rows);
  plan.key_rows = EvenRows(plan.key_block, max_key_rows);
  plan.value_vectors = ChoosePanelVectors(target, spec.dv);
  plan.value_cols = static_cast<int64_t>(plan.value_vectors) * target.f32_lanes;
  plan.value_panels = CeilDiv(spec.dv, plan.value_cols);
  const int64_t used_rows = std::min(plan.rows, plan.query_block);
  plan.score_rows = RoundUp(plan.key_block, kWeightsAtOnce);
  if (plan.pairs) {
    plan.value_rows = EvenRows(spec.dv, plan.value_depth > 0 ? kMostAmxRows : max_tile_rows);
    plan.output_features = RoundUp(spec.dv, plan.value_rows);
    plan.score_rows = std::max(plan.score_rows, plan.FilledPairs(plan.key_block));
    plan.value_stride = RoundUp(plan.key_block, kKeysPerGroup) / 2 + kKeysPerGroup / 2;
    plan.output_rows = plan.query_block;
    return plan;
  }
  plan.value_rows = EvenRows(used_rows, MaxTileRows(target, plan.value_vectors));
  plan.output_rows = RoundUp(used_rows, plan.value_rows);

  const bool is_f32 = spec.type == MemoryType::kF32;
  plan.keys_in_place = is_f32 && spec.k_strides[3] == 1;
  plan.values_in_place = is_f32 && spec.v_strides[3] == 1 && spec.dv % plan.value_cols == 0;
  return plan;
}

int64_t AttentionPlan::FilledPairs(int64_t block_keys) const {
  return RoundUp(RoundUp(block_keys, kWeightsAtOnce) / 2, std::max(1, value_depth));
}

AttentionScratch::AttentionScratch(const AttentionSpec& spec, const AttentionPlan& plan) {
  int64_t at = 0;
  const auto place = [&](int64_t floats) {
    const int64_t offset = at;
    at += RoundUp(floats * 4, 64);
    return offset;
  };
  queries = place(plan.query_block * spec.d);
  scores = place(plan.score_rows * plan.query_block + kSlackBytes / 4);
  maximum = place(plan.query_block);
  block_maximum = place(plan.query_block);
  sum = place(plan.query_block);
  correction = place(std::max(plan.query_block, plan.output_rows));
  output_rows = place(plan.output_rows * plan.value_panels * plan.value_cols);
  output_panels = place(plan.query_block * plan.output_features);
  keys = place(plan.keys_in_place || plan.pairs ? 0 : plan.key_block * spec.d);
  const int64_t value_rows = plan.key_block * plan.value_panels * plan.value_cols;
  values = place(plan.pairs             ? plan.output_features * plan.value_stride
                 : plan.values_in_place ? 0
                                        : value_rows);
  mask = place(plan.mask == AttentionMask::kPerQuery ? plan.key_block * plan.query_block : 0);
  total = at;
}

void AddToKey(KernelKey& key, const AttentionSpec& spec) {
  for (const int64_t value : {spec.heads, spec.kv_repeat, spec.m, spec.n, spec.d, spec.dv}) {
    key.Add(value);
  }
  for (const int64_t* strides :
       {spec.q_strides, spec.k_strides, spec.v_strides, spec.out_strides, spec.mask_strides}) {
    for (int i = 0; i < 4; ++i) key.Add(strides[i]);
  }
  key.Add(spec.batch == 1).Add(static_cast<double>(spec.scale)).Add(spec.causal);
  key.Add(spec.type).Add(spec.mask_type).Add(spec.mask.kind == OperandRef::Kind::kNull);
  key.Add(spec.HasStatistics()).Add(spec.Drops()).Add(static_cast<double>(spec.keep));
}

KernelLaunch AttentionLaunch(const AttentionSpec& spec) {
  KernelLaunch launch;
  launch.operands = {spec.q, spec.k, spec.v, spec.out, spec.mask};
  if (spec.HasStatistics()) {
    launch.operands.insert(launch.operands.end(), {spec.maximum, spec.inverse_sum});
  }
  launch.engine = Engine::kMme;
  launch.name = spec.name;
  const int64_t scores = spec.batch * spec.heads * spec.m * spec.n / (spec.causal ? 2 : 1);
  launch.flops = static_cast<uint64_t>(2 * scores * (spec.d + spec.dv));
  const int64_t elements =
      spec.batch * spec.heads *
      (spec.m * (spec.d + spec.dv) + spec.n * (spec.d + spec.dv) / spec.kv_repeat);
  launch.bytes = static_cast<uint64_t>(elements * MemoryTypeSize(spec.type));
  return launch;
}

absl::StatusOr<EmittedKernels> EmitAttentionKernels(KernelCache& cache, const AttentionSpec& spec) {
  RETURN_IF_ERROR(CheckAttention(spec));
  EmittedKernels out;
  if (spec.batch == 0 || spec.heads == 0 || spec.m == 0 || spec.dv == 0) return out;
  if (spec.n == 0 || spec.d == 0) {
    return Unimplemented(spec.name, ": attention over no keys or no features");
  }
  const AttentionSpec bound = WithBoundOffsets(spec);
  const TargetInfo& target = cache.module().target();
  if (FitsAttentionRows(target, bound)) {
    EmitAttentionRows(cache, bound, &out);
    return out;
  }
  const AttentionPlan plan = PlanAttention(target, bound);
  KernelKey key("attention");
  AddToKey(key, bound);
  KernelLaunch launch = AttentionLaunch(bound);
  if (bound.Drops()) {
    if (!bound.HasStatistics()) return InvalidArgument(spec.name, ": dropout without statistics");
    launch.operands.insert(launch.operands.end(), {bound.seed, bound.offset, bound.base});
  }
  const int64_t units = spec.batch * (plan.folds_heads ? spec.heads / spec.kv_repeat : spec.heads);
  launch.tasks = static_cast<uint64_t>(units * plan.query_blocks);
  launch.scratch_bytes = static_cast<uint64_t>(AttentionScratch(bound, plan).total);
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry =
      cache.GetOrAdd(key, "attention",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                       const auto make = plan.pairs ? MakePairsAttention : MakeF32Attention;
                       make(builder, target, frame, bound, plan)->Emit(task);
                     });
  out.launches.push_back(std::move(launch));
  return out;
}

}  // namespace hpu::graph_compiler
