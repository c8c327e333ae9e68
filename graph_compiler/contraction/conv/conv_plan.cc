#include <algorithm>

#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kStripBytes = 512 * 1024;  // stays in L2 beside a panel of weights
constexpr int64_t kPixelsPerTask = 224;
constexpr int64_t kFewestPixels = 28;
constexpr int64_t kConvTasksWanted = 32;
constexpr int64_t kFewestPanels = 2;
// The cost of a strip: each of its floats costs this many multiply-adds, and the strip may take at
// most this share of a task.
constexpr double kMultiplyAddsPerFloat = 16;
constexpr double kLargestStripShare = 1.0 / 12;
constexpr int kMaxPixelRows = 10;  // each row of a tile holds an address register
constexpr int kFewestAmxPixels = 4;
constexpr int kDepthwiseRows = 4;
constexpr int kMostDepthwiseRows = 8;
constexpr int kDepthwiseVectors = 2;
constexpr int kMostDepthwiseVectors = 3;  // one channel per group and registers for it
constexpr int kPairVectors = 2;           // a vector of bf16 for each column
constexpr int kPairTemporaries = 6;       // registers for two columns and their pairs
constexpr double kMostIdleLanes = 0.2;    // as a share of the lanes that the last panel fills up
constexpr int64_t kMostUnrolledTaps = 7;
// The limits of a depthwise task, whose rows above and below its own pixels are a large part of its
// reading.
constexpr int64_t kDepthwiseStripBytes = 160 * 1024;
constexpr int64_t kDepthwisePixels = 4096;
constexpr int64_t kPixelsInPlace = 512;
constexpr int64_t kPanelBlocksInPlace =
    4;  // the most panels of a task: channels that lie together are walked together
// The most columns of padding on a side, whose tiles are unrolled.
constexpr int64_t kWidestEdge = 16;

bool ReadsInPlace(const ConvSpec& spec, int64_t group_in) {
  if (spec.x_type != MemoryType::kF32 || spec.x_strides[3] != 1) return false;
  if (!ReadsNoPadding(spec)) return false;
  // With short runs per tap most of the time would go into jumps.
  const bool columns_adjoin =
      spec.kernel_w == 1 || (spec.dilation_w == 1 && spec.x_strides[2] == group_in);
  return columns_adjoin || group_in >= 16;
}

// Chooses the largest tile of about `pixels` whose strip fits.
void ChooseTile(ConvPlan& plan, const ConvSpec& spec, int64_t pixels, int64_t strip_bytes) {
  plan.tile_w = std::min(spec.out_w, kPixelsPerTask);
  plan.tile_h = std::clamp<int64_t>(pixels / plan.tile_w, 1, spec.out_h);
  while (plan.strip_floats(spec) * 4 > strip_bytes && plan.pixels() > kFewestPixels) {
    if (plan.tile_h > 1) {
      plan.tile_h = CeilDiv(plan.tile_h, 2);
    } else {
      plan.tile_w = CeilDiv(plan.tile_w, 2);
    }
  }
  CutEvenly(plan, spec);
}

int64_t Tasks(const ConvPlan& plan, const ConvSpec& spec, int64_t groups) {
  return spec.batch * groups * plan.blocks_h * plan.blocks_w * plan.panel_blocks;
}

// Splits output channels, then rows, until there is work for many threads.
void ChooseTasks(ConvPlan& plan, const ConvSpec& spec, int64_t groups, int64_t fewest_panels) {
  plan.panels_per_task = plan.panels;
  plan.panel_blocks = 1;
  while (Tasks(plan, spec, groups) < kConvTasksWanted && plan.panels_per_task > fewest_panels) {
    plan.panels_per_task = CeilDiv(plan.panels_per_task, 2);
    plan.panel_blocks = CeilDiv(plan.panels, plan.panels_per_task);
  }
  while (Tasks(plan, spec, groups) < kConvTasksWanted && plan.tile_h > 1 &&
         plan.pixels() >= 2 * kFewestPixels) {
    plan.tile_h = CeilDiv(plan.tile_h, 2);
    CutEvenly(plan, spec);
  }
}

// Returns the least number of panels per task that pays for copying its strip.
int64_t FewestPanels(const ConvPlan& plan, const ConvSpec& spec) {
  const double strip = kMultiplyAddsPerFloat * static_cast<double>(plan.strip_floats(spec));
  const auto panel = static_cast<double>(plan.pixels() * plan.panel_cols * spec.kernel_h *
                                         spec.kernel_w * plan.group_in);
  const auto wanted = static_cast<int64_t>(strip / (panel * kLargestStripShare)) + 1;
  return std::max(kFewestPanels, wanted);
}

// AMX reads the pixels of a tile at equal distances, so they must share an output row.
void ChooseAmx(ConvPlan& plan, const ConvSpec& spec) {
  if (spec.out_w % plan.tile_w != 0) return;
  int pixels = kAmxRows;
  while (plan.tile_w % pixels != 0) --pixels;
  if (pixels < kFewestAmxPixels) return;
  plan.amx_depth = AmxDepth(plan.run(spec));
  if (plan.amx_depth == 0) return;
  plan.amx_pixels = pixels;
  const int64_t count = plan.pixels() / pixels;
  plan.tiles = {};
  plan.tiles.main_rows = count > 1 ? kAmxHalves * pixels : pixels;
  plan.tiles.main_count = plan.pixels() / plan.tiles.main_rows;
  plan.tiles.tail_count = (plan.pixels() - plan.tiles.main_rows * plan.tiles.main_count) / pixels;
  plan.tiles.tail_rows = plan.tiles.tail_count > 0 ? pixels : 0;
}

ConvPlan CutConv(const TargetInfo& target, const ConvSpec& spec, int vectors) {
  ConvPlan plan;
  plan.group_in = spec.in_c / spec.groups;
  plan.group_out = spec.out_c / spec.groups;
  plan.strip_channels = plan.group_in;
  plan.strip = !ReadsInPlace(spec, plan.group_in);
  plan.vectors = vectors;
  plan.panel_cols = static_cast<int64_t>(plan.vectors) * target.f32_lanes;
  plan.panels = CeilDiv(plan.group_out, plan.panel_cols);
  ChooseTile(plan, spec, kPixelsPerTask, kStripBytes);
  ChooseTasks(plan, spec, spec.groups, FewestPanels(plan, spec));
  return plan;
}

}  // namespace

void CutEvenly(ConvPlan& plan, const ConvSpec& spec) {
  plan.blocks_h = EvenBlocks(spec.out_h, plan.tile_h);
  plan.blocks_w = EvenBlocks(spec.out_w, plan.tile_w);
}

ConvPlan PlanTiledConv(const TargetInfo& target, const ConvSpec& spec, bool pairs) {
  const int64_t group_out = spec.out_c / spec.groups;
  if (pairs && target.amx_bf16) {
    ConvPlan plan = CutConv(target, spec, AmxPanelVectors(group_out));
    ChooseAmx(plan, spec);
    if (plan.amx_depth > 0) return plan;
  }
  ConvPlan plan = CutConv(target, spec, ChoosePanelVectors(target, group_out));
  const int max_rows = std::min(kMaxPixelRows, MaxTileRows(target, plan.vectors));
  plan.tiles = ChooseRowTiles(plan.pixels(), max_rows);
  return plan;
}

bool TakesDepthwise(const TargetInfo& target, const ConvSpec& spec) {
  const int64_t size = spec.in_c / spec.groups;
  return spec.groups > 1 && spec.in_c == spec.out_c &&
         (size == 1 || (size * 2 <= target.f32_lanes && target.f32_lanes % size == 0));
}

namespace {

bool DepthwiseInPlace(const TargetInfo& target, const ConvPlan& plan, const ConvSpec& spec) {
  const bool has_masks = target.isa >= IsaLevel::kV3;
  const int64_t right = (spec.out_w - 1) * spec.stride_w - spec.pad_left +
                        (spec.kernel_w - 1) * spec.dilation_w - (spec.in_w - 1);
  return plan.lane_group == 1 && spec.kernel_w <= kMostUnrolledTaps && spec.x_strides[3] == 1 &&
         (has_masks || spec.out_c % plan.panel_cols == 0) && spec.pad_left <= kWidestEdge &&
         right <= kWidestEdge;
}

// Two taps of a row are one product of pairs, if enough lanes are channels.
bool TakesColumnPairs(const TargetInfo& target, const ConvPlan& plan, const ConvSpec& spec) {
  if (!target.avx512_bf16 || spec.x_type != MemoryType::kBF16 || !HoldsBF16(spec.w_type)) {
    return false;
  }
  const int64_t idle = RoundUp(spec.out_c, kPairVectors * target.f32_lanes) - spec.out_c;
  return plan.lane_group == 1 && spec.kernel_w > 1 && spec.dilation_w == 1 &&
         static_cast<double>(idle) <= kMostIdleLanes * static_cast<double>(spec.out_c);
}

}  // namespace

ConvPlan PlanDepthwiseConv(const TargetInfo& target, const ConvSpec& spec) {
  ConvPlan plan;
  plan.lane_group = spec.in_c / spec.groups;
  plan.group_in = 1;
  plan.group_out = 1;
  const bool wide = plan.lane_group == 1 && target.vector_registers >= 32;
  const auto cut = [&](int vectors) {
    plan.vectors = vectors;
    plan.panel_cols = static_cast<int64_t>(vectors) * target.f32_lanes;
    plan.panels = CeilDiv(spec.out_c, plan.panel_cols);
  };
  cut(kPairVectors);
  plan.column_pairs = TakesColumnPairs(target, plan, spec) && DepthwiseInPlace(target, plan, spec);
  if (!plan.column_pairs) {
    cut(ChoosePanelVectors(target, spec.out_c, wide ? kMostDepthwiseVectors : kDepthwiseVectors));
  }
  plan.strip_channels = plan.panel_cols;
  plan.strip = !DepthwiseInPlace(target, plan, spec);
  if (plan.strip) {
    ChooseTile(plan, spec, kDepthwisePixels, kDepthwiseStripBytes);
    ChooseTasks(plan, spec, 1, 1);
  } else {
    plan.tile_w = spec.out_w;
    plan.tile_h = std::clamp<int64_t>(kPixelsInPlace / plan.tile_w, 1, spec.out_h);
    CutEvenly(plan, spec);
    ChooseTasks(plan, spec, 1, CeilDiv(plan.panels, kPanelBlocksInPlace));
  }
  plan.tiles_of_rows =
      plan.lane_group == 1 && spec.kernel_w <= kMostUnrolledTaps && spec.out_w % plan.tile_w == 0;
  if (!plan.tiles_of_rows) {
    plan.tiles = ChooseRowTiles(plan.pixels(), kDepthwiseRows);
    return plan;
  }
  // Sums, a row of the kernel and a column of the image are in registers where there are enough of
  // them.
  const auto taps = static_cast<int>(plan.column_pairs ? CeilDiv(spec.kernel_w, 2) : spec.kernel_w);
  const int columns = plan.column_pairs ? kPairTemporaries : plan.vectors;
  const int rows = (target.vector_registers - taps * plan.vectors - columns) / plan.vectors;
  plan.tiles = ChooseRowTiles(plan.tile_w, std::clamp(rows, kDepthwiseRows, kMostDepthwiseRows));
  return plan;
}

}  // namespace hpu::graph_compiler
