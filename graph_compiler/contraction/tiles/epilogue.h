// The epilogue of a contraction: a Body that runs on finished accumulators.
#pragma once

#include <vector>

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler {

// Makes the body's accesses refer to a launch's operands. Offsets move from the code to the operand
// references, so that layers that differ only in where their buffers lie share one kernel.
Body BindEpilogue(const Body& body, const std::vector<OperandRef>& epilogue_operands,
                  std::vector<OperandRef>& launch_operands);

// Returns the bytes that one pass over `elements` outputs moves, for launch statistics.
uint64_t EpilogueBytes(const Body& body, uint64_t elements);

// The place of a finished tile in the epilogue's iteration space (prefix..., row, column).
struct TilePlace {
  Values prefix;
  llvm::Value* row = nullptr;
  llvm::Value* col = nullptr;
  int64_t cols_total = 0;              // n: columns from here on do not exist
  llvm::Value* tile_buffer = nullptr;  // scratch for one tile, which is used where the body is long
  // Maps a row number to the index values between prefix and column; null means the row itself.
  std::function<Values(llvm::Value* row)> row_index;
  llvm::Value* first_col = nullptr;  // added to columns in the iteration space (groups)
  // The rows that exist from `row` on, if they are fewer than the tile's rows.
  llvm::Value* rows_left = nullptr;
};

// Prefetches the rows that the epilogue of a tile reads and writes while the tile is calculated:
// they lie too far apart for the CPU to predict them. Rows must be those of the body's iteration
// space (no row_index).
void PrefetchTileEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, TileShape shape,
                          const TilePlace& place);

// Applies the body to the whole tile. Short bodies run on the registers of every row; long ones are
// emitted once, in a loop over rows that reads the tile back from L1. An empty `tile` means that
// the tile lies in place.tile_buffer already.
void EmitTileEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, TileShape shape,
                      const Values& tile, const TilePlace& place);

// Applies the body to one vector of finished sums at `index`, whose last entry is the column of
// lane 0; columns from `cols_total` on do not exist.
void EmitRowEpilogue(IrEmitter& e, const KernelFrame& frame, const Body& body, const Values& index,
                     int64_t cols_total, llvm::Value* sums);

}  // namespace hpu::graph_compiler
