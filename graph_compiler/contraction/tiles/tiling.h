// Sizes that say how a contraction is cut into register tiles, cache blocks and tasks. They are
// pure functions of shapes and TargetInfo, so that equal shapes give equal code on every compiling
// machine.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler {

// A panel of this size streams from L2 as fast as from L1.
inline constexpr int64_t kPanelBytesInL2 = 192 * 1024;

// Returns the largest row count whose accumulators, one row of B and a broadcast fit in registers.
int MaxTileRows(const TargetInfo& target, int vectors);

// Returns the cycles per k step of a tile, up to a factor: multiply-adds and loads both issue two
// per cycle; half a cycle pays for starting and ending the tile.
inline double TileCost(int rows, int vectors) {
  return std::max(rows * vectors, rows + vectors) * 0.5 + 0.5;
}

// Returns the vectors per B panel for a result of n columns: the width up to `most` with the least
// padding, and the larger of equal ones.
int ChoosePanelVectors(const TargetInfo& target, int64_t n, int most = 4);

// The m rows are main_count tiles of main_rows followed by tail_count tiles of tail_rows.
struct RowTiles {
  int main_rows = 0;
  int64_t main_count = 0;
  int tail_rows = 0;
  int64_t tail_count = 0;
  int64_t count() const { return main_count + tail_count; }
  int max_rows() const { return main_count > 0 ? main_rows : tail_rows; }
};
// Returns the fewest tiles of at most `max_rows` rows. The shorter ones have one row less, so that
// there are few kinds of code, whatever m is.
RowTiles ChooseRowTiles(int64_t m, int max_rows);

// The blocks and tasks of a tiled product. A task is one block of row tiles times some panels.
struct GemmBlocks {
  RowTiles tiles;
  int vectors = 0;
  int64_t panel_cols = 0;  // vectors * lanes
  int64_t panels = 0;
  int64_t k_block = 0;  // k steps between visits of C; divides k or leaves one short block
  int64_t k_blocks = 0;
  int64_t tiles_per_block = 0;
  int64_t row_blocks = 0;
  int64_t panels_per_task = 0;
  // The number of consecutive tasks of a block of rows that are run as one where a thread has them
  // anyway, so that they share the visit of A. Panels are computed in the same way with or without
  // this. It applies only if rows are not first.
  int64_t tasks_joined = 1;
  int64_t panel_blocks = 0;
  bool rows_first = false;  // consecutive tasks share a panel (else a block of rows)
  int amx_depth = 0;        // k steps that AMX tiles multiply at once (amx_tiles.h); 0: vectors
  uint64_t tasks_per_matrix() const {
    return static_cast<uint64_t>(row_blocks) * static_cast<uint64_t>(panel_blocks);
  }
};
// How the panels of B are made and used.
struct PanelUse {
  int vectors = 0;
  bool packed_by_task = false;  // every task packs its panels itself, so tall blocks pay
  int amx_depth = 0;
};
// Returns the number of blocks of rows that pack a panel each where tasks pack the panels that they
// use.
int64_t PackingRowBlocks(int64_t m);
GemmBlocks ChooseGemmBlocks(const TargetInfo& target, int64_t batch, int64_t m, int64_t n,
                            int64_t k, const PanelUse& use);

// Returns how many tasks one thread should take together so that waking it pays.
uint64_t ChooseGrain(uint64_t tasks, uint64_t flops);

inline int64_t CeilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline int64_t RoundUp(int64_t x, int64_t y) { return CeilDiv(x, y) * y; }
// Returns the number of blocks of at most `size` and sets `size` to the size of even blocks.
inline int64_t EvenBlocks(int64_t count, int64_t& size) {
  size = CeilDiv(count, CeilDiv(count, size));
  return CeilDiv(count, size);
}

}  // namespace hpu::graph_compiler
