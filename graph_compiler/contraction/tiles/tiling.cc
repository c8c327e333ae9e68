#include "graph_compiler/contraction/tiles/tiling.h"

#include <algorithm>

#include "graph_compiler/contraction/tiles/amx_tiles.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kABytesInL2 = 448 * 1024;
constexpr int64_t kJoinedTasksWanted = 8;
constexpr int64_t kMostTasksJoined = 8;
constexpr int64_t kRowsPerBlock = 128;
constexpr int64_t kRowsPerPackingBlock = 384;
constexpr int64_t kResidentABytes = 640 * 1024;  // A of this size stays in L2 across panels
constexpr int64_t kGemmTasksWanted = 64;
// The least number of passes over a panel that pays for fetching it.
constexpr int64_t kFewestTilesPerBlock = 8;
// Where all of A stays in L2, a thread runs the blocks of rows of a panel in turn, so that more of
// them cost it nothing: this wants three tasks for each of 32 threads.
constexpr int64_t kResidentTasksWanted = 96;
constexpr int64_t kFewestTilesOfResidentA = 2;
// So few tasks would leave threads idle at the end, most of all if their number is odd.
constexpr int64_t kFewTasks = 8;
constexpr int64_t kMinTaskFlops = 512 * 1024;  // about 5 us on one AVX2 core
constexpr uint64_t kMinThreadFlops = 256 * 1024;

// A long k is cut so that a task's rows of A stay in L2 while panels pass. Then more than one panel
// should pass, either of one task or of several that a thread runs together.
void ChooseKBlocks(GemmBlocks& blocks, int64_t m, int64_t k) {
  const int64_t rows = std::min(m, blocks.tiles_per_block * blocks.tiles.max_rows());
  const int64_t longest = std::min(kABytesInL2 / (std::max<int64_t>(1, rows) * 4),
                                   kPanelBytesInL2 / (blocks.panel_cols * 4));
  blocks.k_blocks = blocks.tiles_per_block <= 1 ? 1 : std::max<int64_t>(1, CeilDiv(k, longest));
  while (blocks.k_blocks > 1 && k % blocks.k_blocks != 0 && k / blocks.k_blocks > longest / 2) {
    ++blocks.k_blocks;
  }
  blocks.k_block = CeilDiv(k, blocks.k_blocks);
  if (blocks.amx_depth > 0) blocks.k_block = RoundUp(blocks.k_block, blocks.amx_depth);
  blocks.k_blocks = std::max<int64_t>(1, CeilDiv(k, std::max<int64_t>(1, blocks.k_block)));
  if (blocks.k_blocks > 1) {
    blocks.tasks_joined = std::clamp<int64_t>(
        CeilDiv(blocks.panels, blocks.panels_per_task) / kJoinedTasksWanted, 1, kMostTasksJoined);
  }
}

int64_t RowBlocks(int64_t m, int64_t rows) { return CeilDiv(m, rows + rows / 4); }

}  // namespace

int64_t PackingRowBlocks(int64_t m) { return RowBlocks(m, kRowsPerPackingBlock); }

int MaxTileRows(const TargetInfo& target, int vectors) {
  if (target.vector_registers >= 32) {
    constexpr int kRows[] = {0, 24, 12, 8, 6};
    return kRows[vectors];
  }
  if (target.fma) {
    constexpr int kRows[] = {0, 12, 6, 4, 2};
    return kRows[vectors];
  }
  constexpr int kRows[] = {0, 8, 4, 2, 1};  // a multiply needs a register for its product
  return kRows[vectors];
}

int ChoosePanelVectors(const TargetInfo& target, int64_t n, int most) {
  const int widest = std::min(most, target.vector_registers >= 32 ? 4 : (target.fma ? 3 : 2));
  constexpr double kOverhead[] = {0, 1.15, 1.0, 1.04, 1.04};  // per multiply-add, by loads
  int best = 2;
  double best_cost = 0;
  for (const int vectors : {2, 1, 3, 4}) {
    if (vectors > widest) continue;
    const int64_t cols = static_cast<int64_t>(vectors) * target.f32_lanes;
    const double cost = static_cast<double>(RoundUp(n, cols)) * kOverhead[vectors];
    if (best_cost == 0 || cost < best_cost) {
      best = vectors;
      best_cost = cost;
    }
  }
  return best;
}

RowTiles ChooseRowTiles(int64_t m, int max_rows) {
  if (m == 0) return {};
  int64_t rows = max_rows;
  const int64_t count = EvenBlocks(m, rows);
  const int64_t shorter = count * rows - m;
  RowTiles tiles{static_cast<int>(rows), count - shorter};
  if (shorter > 0) {
    tiles.tail_rows = tiles.main_rows - 1;
    tiles.tail_count = shorter;
  }
  return tiles;
}

GemmBlocks ChooseGemmBlocks(const TargetInfo& target, int64_t batch, int64_t m, int64_t n,
                            int64_t k, const PanelUse& use) {
  GemmBlocks blocks;
  blocks.vectors = use.vectors;
  blocks.amx_depth = use.amx_depth;
  blocks.tiles =
      use.amx_depth > 0 ? AmxRowTiles(m) : ChooseRowTiles(m, MaxTileRows(target, use.vectors));
  blocks.panel_cols = static_cast<int64_t>(use.vectors) * target.f32_lanes;
  blocks.panels = CeilDiv(n, blocks.panel_cols);

  int64_t row_blocks = use.packed_by_task ? PackingRowBlocks(m) : RowBlocks(m, kRowsPerBlock);
  const auto panel_flops = [&] { return CeilDiv(m, row_blocks) * blocks.panel_cols * k * 2; };
  while (batch * row_blocks * blocks.panels < kGemmTasksWanted &&
         panel_flops() >= 2 * kMinTaskFlops &&
         row_blocks * 2 * kFewestTilesPerBlock <= blocks.tiles.count()) {
    row_blocks *= 2;
  }
  const bool resident = m * k * 4 <= kResidentABytes;
  while (resident && !use.packed_by_task &&
         batch * row_blocks * blocks.panels < kResidentTasksWanted &&
         panel_flops() >= 2 * kMinTaskFlops &&
         row_blocks * 2 * kFewestTilesOfResidentA <= blocks.tiles.count()) {
    row_blocks *= 2;
  }
  const int64_t fewest_tiles = resident ? kFewestTilesOfResidentA : kFewestTilesPerBlock;
  const int64_t most =
      std::min(blocks.tiles.count() / fewest_tiles, m * blocks.panel_cols * k * 2 / kMinTaskFlops);
  while (batch * row_blocks * blocks.panels < kFewTasks && row_blocks < most) {
    row_blocks = std::min(2 * row_blocks, most);
  }
  blocks.tiles_per_block = CeilDiv(blocks.tiles.count(), row_blocks);
  blocks.row_blocks = CeilDiv(blocks.tiles.count(), blocks.tiles_per_block);
  blocks.panels_per_task = std::clamp<int64_t>(
      CeilDiv(kMinTaskFlops / 2, std::max<int64_t>(1, panel_flops())), 1, blocks.panels);
  ChooseKBlocks(blocks, m, k);
  blocks.panel_blocks = CeilDiv(blocks.panels, blocks.panels_per_task);
  blocks.rows_first = resident && blocks.tasks_joined == 1;
  return blocks;
}

uint64_t ChooseGrain(uint64_t tasks, uint64_t flops) {
  if (tasks == 0) return 1;
  const uint64_t per_task = std::max<uint64_t>(1, flops / tasks);
  return std::clamp<uint64_t>(kMinThreadFlops / per_task, 1, tasks);
}

}  // namespace hpu::graph_compiler
