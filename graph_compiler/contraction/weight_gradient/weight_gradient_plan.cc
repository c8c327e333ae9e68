#include <algorithm>

#include "graph_compiler/contraction/tiles/tiling.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kPanelBytes = 24 * 1024;  // of a panel of dy, which stays in L1 beside a strip
constexpr int64_t kFewestPositions = 64;
constexpr int64_t kMostPositions = 256;
constexpr int64_t kLanesPositions = 448;  // rows of a strip above each other, which stay in L2
constexpr int64_t kLanesColumns = 64;
// For pairs: the sums of a tap are read and written once for this many positions. With vectors a
// strip is read four times for a tap, so it and a panel of dy must stay in L1.
constexpr int64_t kTilePositions = 512;
constexpr int64_t kPairPositions = 192;
constexpr int64_t kMostTileDepth = 16;
constexpr int64_t kFewestPairChannels = 16;  // half of the channels of a block
constexpr int64_t kBlockVectors = 2;
constexpr int64_t kSumBytes = 160 * 1024;  // of a task, which stay in L2 beside dy and strips
constexpr int64_t kDyBytes = 200 * 1024;
// The multiply-adds of vectors per vector of dy, or of x, that pay for copying it.
constexpr int64_t kWorkPerCopy = 128;
constexpr int64_t kGradientTasksWanted = 32;
// A partial sum is written and read once for this many products.
constexpr int64_t kPositionsPerSplit = 512;
constexpr int64_t kPairPositionsPerSplit = 1024;
constexpr int64_t kTilePositionsPerSplit = 2048;

// Returns the rows of a register tile with the least padding of `channels`.
int ChooseRows(const TargetInfo& target, int64_t channels, int vectors) {
  const int most = MaxTileRows(target, vectors);
  int best = most;
  double best_cost = 0;
  for (int rows = most; rows >= 1 && rows * 2 >= most; --rows) {
    const double cost = static_cast<double>(CeilDiv(channels, rows)) * TileCost(rows, vectors);
    if (best_cost == 0 || cost < best_cost) {
      best = rows;
      best_cost = cost;
    }
  }
  return static_cast<int>(std::min<int64_t>(best, channels));
}

bool TakesLanes(const TargetInfo& target, const ConvSpec& conv) {
  const int64_t size = conv.in_c / conv.groups;
  return conv.groups > 1 && conv.in_c == conv.out_c && size < target.f32_lanes &&
         target.f32_lanes % size == 0;
}

void CutChunks(WeightGradientPlan& plan, const ConvSpec& conv, int64_t positions,
               int64_t most_columns) {
  plan.cut.tile_w = std::min({conv.out_w, positions, most_columns});
  plan.cut.tile_h = std::clamp<int64_t>(positions / plan.cut.tile_w, 1, conv.out_h);
  CutEvenly(plan.cut, conv);
  const bool whole = plan.cut.blocks_h == 1 && plan.cut.blocks_w == 1;
  plan.images = whole ? std::clamp<int64_t>(positions / plan.cut.pixels(), 1, conv.batch) : 1;
  plan.image_blocks = EvenBlocks(conv.batch, plan.images);
  plan.chunks = plan.image_blocks * plan.cut.blocks_h * plan.cut.blocks_w;
}

void CutBlocks(WeightGradientPlan& plan) {
  plan.channel_blocks = EvenBlocks(plan.channel_tiles, plan.channel_tiles_per_task);
  plan.panel_blocks = EvenBlocks(plan.panels, plan.panels_per_task);
}

void Split(WeightGradientPlan& plan, const ConvSpec& conv) {
  const int64_t positions = conv.batch * conv.out_h * conv.out_w;
  const int64_t blocks = plan.groups(conv) * plan.channel_blocks * plan.panel_blocks;
  const int64_t least = plan.runs.depth > 0   ? kTilePositionsPerSplit
                        : plan.runs.pairs > 0 ? kPairPositionsPerSplit
                                              : kPositionsPerSplit;
  const int64_t most = std::clamp<int64_t>(positions / least, 1, std::max<int64_t>(1, plan.chunks));
  plan.splits = std::clamp<int64_t>(CeilDiv(kGradientTasksWanted, blocks), 1, most);
  plan.chunks_per_split = CeilDiv(plan.chunks, plan.splits);
  plan.splits = CeilDiv(plan.chunks, plan.chunks_per_split);
}

WeightGradientPlan PlanLanes(const TargetInfo& target, const ConvSpec& conv) {
  WeightGradientPlan plan;
  plan.lanes = true;
  plan.group_size = conv.in_c / conv.groups;
  const bool wide = target.vector_registers >= 32 && conv.in_c > target.f32_lanes;
  plan.vectors = wide && plan.group_size == 1 ? 2 : 1;  // a shuffle of dy serves many taps
  plan.panel_cols = int64_t{plan.vectors} * target.f32_lanes;
  plan.panels = CeilDiv(conv.in_c, plan.panel_cols);
  plan.channel_tiles = 1;
  plan.cut.strip_channels = plan.panel_cols;
  plan.cut.group_in = plan.panel_cols;
  plan.rows = MaxTileRows(target, 1) / plan.vectors;
  plan.unit_rows = conv.kernel_w * plan.group_size;
  plan.channel_tiles_per_task = plan.panels_per_task = 1;
  CutChunks(plan, conv, kLanesPositions, kLanesColumns);
  CutBlocks(plan);
  Split(plan, conv);
  return plan;
}

// Chooses panels and channel tiles per task, and splits. `panel_bytes` is the size of a panel of dy
// of a chunk.
void CutTasks(WeightGradientPlan& plan, const ConvSpec& conv, int64_t panel_bytes) {
  const int64_t unit_bytes = plan.unit_floats(conv) * 4;
  const int64_t taps = conv.kernel_h * conv.kernel_w;
  // A position of a strip is multiplied by `taps` rows of a panel's vectors, and a position of dy
  // by the rows of a tile.
  const int64_t panels_wanted = CeilDiv(kWorkPerCopy, taps * plan.rows * plan.vectors);
  const int64_t most_panels = std::max<int64_t>(1, kDyBytes / panel_bytes);
  plan.panels_per_task = std::clamp<int64_t>(std::max<int64_t>(4, 2 * panels_wanted), 1,
                                             std::min(most_panels, plan.panels));
  const int64_t most_tiles = std::max<int64_t>(1, kSumBytes / (unit_bytes * plan.panels_per_task));
  const int64_t fewest_tiles = CeilDiv(kWorkPerCopy, taps * plan.rows);
  plan.channel_tiles_per_task = std::min(most_tiles, plan.channel_tiles);
  CutBlocks(plan);
  while (plan.groups(conv) * plan.channel_blocks * plan.panel_blocks < kGradientTasksWanted &&
         plan.channel_tiles_per_task > fewest_tiles) {
    plan.channel_tiles_per_task = CeilDiv(plan.channel_tiles_per_task, 2);
    CutBlocks(plan);
  }
  Split(plan, conv);
}

WeightGradientPlan PlanTiled(const TargetInfo& target, const ConvSpec& conv) {
  WeightGradientPlan plan;
  const int64_t group_in = conv.in_c / conv.groups;
  const int64_t group_out = conv.out_c / conv.groups;
  plan.vectors = ChoosePanelVectors(target, group_out, 2);
  plan.panel_cols = int64_t{plan.vectors} * target.f32_lanes;
  plan.panels = CeilDiv(group_out, plan.panel_cols);
  const int most_rows = MaxTileRows(target, plan.vectors);
  plan.joined_columns = conv.dilation_w == 1 && conv.kernel_w > 1 && group_in * 2 <= most_rows;
  plan.rows =
      ChooseRows(target, plan.joined_columns ? group_in * conv.kernel_w : group_in, plan.vectors);
  plan.cut.strip_channels = plan.joined_columns ? group_in : plan.rows;
  plan.cut.group_in = plan.cut.strip_channels;
  plan.channel_tiles = CeilDiv(group_in, plan.cut.strip_channels);
  plan.tiles_per_row =
      plan.joined_columns ? CeilDiv(group_in * conv.kernel_w, plan.rows) : conv.kernel_w;
  plan.unit_rows = plan.tiles_per_row * plan.rows;
  CutChunks(plan, conv,
            std::clamp(kPanelBytes / (plan.panel_cols * 4), kFewestPositions, kMostPositions),
            conv.out_w);

  CutTasks(plan, conv, plan.images * plan.cut.pixels() * plan.panel_cols * 4);
  return plan;
}

bool TakesPairs(const TargetInfo& target, const WeightGradientSpec& spec) {
  const ConvSpec& conv = spec.conv;
  return target.avx512_bf16 && conv.x_type == MemoryType::kBF16 &&
         spec.dy_type == MemoryType::kBF16 && conv.x_strides[3] == 1 && spec.dy_strides[3] == 1 &&
         conv.in_c / conv.groups >= kFewestPairChannels &&
         conv.out_c / conv.groups >= kFewestPairChannels && conv.out_w <= kTilePositions;
}

GradientRuns PlanRuns(const WeightGradientPlan& plan, const ConvSpec& conv, bool tiles) {
  const ConvPlan& cut = plan.cut;
  GradientRuns runs;
  runs.columns = RoundUp(cut.strip_cols(conv), 2);
  runs.joined_rows = conv.stride_h == conv.stride_w && runs.columns * 4 <= cut.tile_w * 5;
  const int64_t positions =
      runs.joined_rows ? (cut.tile_h - 1) * runs.columns + cut.tile_w : cut.tile_w;
  const int64_t pairs = CeilDiv(positions, 2);
  if (tiles) runs.depth = static_cast<int>(CeilDiv(pairs, CeilDiv(pairs, kMostTileDepth)));
  runs.pairs = tiles ? RoundUp(pairs, runs.depth) : pairs;
  runs.row_positions = runs.joined_rows ? runs.columns : 2 * runs.pairs;
  // Rows of the copy end with a vector that is written whole.
  runs.image_positions = runs.joined_rows ? std::max(2 * runs.pairs, cut.tile_h * runs.columns)
                                          : cut.tile_h * runs.row_positions;
  runs.dy_row = RoundUp(plan.images * runs.image_positions, 32) + 32;
  const int64_t last_row = (runs.joined_rows ? 0 : (cut.tile_h - 1) * conv.stride_h) +
                           (conv.kernel_h - 1) * conv.dilation_h;
  const int64_t read = last_row * runs.columns + (conv.kernel_w - 1) * conv.dilation_w +
                       2 * runs.pairs * conv.stride_w;
  runs.strip_dwords = std::max(read, cut.strip_rows(conv) * runs.columns) * plan.cut.strip_channels;
  return runs;
}

WeightGradientPlan PlanPairs(const TargetInfo& target, const ConvSpec& conv) {
  WeightGradientPlan plan;
  plan.vectors = kBlockVectors;
  plan.panel_cols = kBlockVectors * target.f32_lanes;
  plan.panels = CeilDiv(conv.out_c / conv.groups, plan.panel_cols);
  plan.rows = static_cast<int>(plan.panel_cols);
  plan.cut.strip_channels = plan.cut.group_in = plan.panel_cols;
  plan.channel_tiles = CeilDiv(conv.in_c / conv.groups, plan.panel_cols);
  plan.tiles_per_row = conv.kernel_w;
  plan.unit_rows = plan.tiles_per_row * plan.rows;
  const int64_t positions = target.amx_bf16 ? kTilePositions : kPairPositions;
  CutChunks(plan, conv, std::max(positions, conv.out_w), conv.out_w);  // whole rows
  plan.runs = PlanRuns(plan, conv, target.amx_bf16);
  CutTasks(plan, conv, plan.runs.dy_row * plan.panel_cols * 2);
  return plan;
}

}  // namespace

WeightGradientPlan PlanWeightGradient(const TargetInfo& target, const WeightGradientSpec& spec) {
  if (TakesPairs(target, spec)) return PlanPairs(target, spec.conv);
  return TakesLanes(target, spec.conv) ? PlanLanes(target, spec.conv)
                                       : PlanTiled(target, spec.conv);
}

}  // namespace hpu::graph_compiler
