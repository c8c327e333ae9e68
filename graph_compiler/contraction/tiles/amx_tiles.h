// The inner kernel for CPUs with AMX, in BF16 or INT8. Up to 2 x 2 tiles of 16 x 16 accumulators
// stay in tile registers while k runs. B lies in the panels of AVX512_BF16 (PanelType::kBF16Pairs;
// for 8-bit integers kI8Quads, and "pairs" below are quads): one pair of k of 16 columns is one row
// of a tile. A is read in place: one row of A is one row of a tile. Finished accumulators are
// stored in memory, where the epilogue reads them row by row.
//
// The rows of A are two halves h = 0 and 1 of up to 16 rows each, and the columns of B are two
// vectors v = 0 and 1 of 16 columns each. Tile 4 + h holds half h of A, tile 6 + v holds vector v
// of B, and tile 2 * h + v holds the accumulators of their product.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

inline constexpr int kAmxRows = 16;    // of a tile
inline constexpr int kAmxVectors = 2;  // widest panel
inline constexpr int kAmxHalves = 2;   // tiles of A

// Returns the pairs of k that a tile multiplies at once in a run of `pairs`: the largest divisor
// that a tile holds, so that no run leaves a remainder. Returns 0 if that would fill less than half
// a tile.
int AmxDepth(int64_t pairs);
// Returns the same for operands that are copied anyway and may be filled up with zeros: it chooses
// the fewest products, then the fewest zeros. Returns 0 as above.
int AmxDepthFilledUp(int64_t pairs);

// Returns the number of vectors per panel for n columns.
inline int AmxPanelVectors(int64_t n) { return n > kAmxRows ? kAmxVectors : 1; }

// Returns tiles of up to 32 rows, the last one shorter.
RowTiles AmxRowTiles(int64_t m);

// Rows of A from two places, in each of which they are `row_stride` bytes apart; k is contiguous.
struct AmxA {
  llvm::Value* halves[kAmxHalves] = {};
  int64_t row_stride = 0;
};

// Returns rows all of which lie `row_stride` bytes apart.
AmxA AdjacentRows(IrEmitter& e, llvm::Value* first, int64_t row_stride);

class AmxTiles {
 public:
  // The tiles have `rows` rows: the first half of A takes `first_rows` of them, at most 16, and the
  // second the rest. `vectors` of B is 1 or 2.
  AmxTiles(IrEmitter& e, int rows, int first_rows, int vectors, int depth);

  // Sets the shapes of the tiles, which then hold 0. Call it once before any number of tiles of the
  // same shape. `last_rows` are the rows of the last half where they are known only when the kernel
  // runs: from 1 to those of the constructor. Rows beyond are neither read nor written.
  void Configure(const KernelFrame& frame, llvm::Value* last_rows = nullptr);
  // Returns to the state in which the CPU need not save tiles. Call it at the end of every task.
  static void Release(IrEmitter& e);

  // These move accumulators from and to rows of vectors * 16 f32, the rows of the first half first;
  // rows lie `row_stride` bytes apart, 0 means dense.
  void Zero();
  void Load(llvm::Value* sums, int64_t row_stride = 0);
  // Loads every row from the same row.
  void LoadRow(llvm::Value* sums);
  void Store(llvm::Value* sums, int64_t row_stride = 0);
  // Accumulates `steps` pairs of k; `steps` is a multiple of the depth.
  void Accumulate(const AmxA& a, const TileB& b, llvm::Value* steps);

 private:
  int halves() const { return rows_[1] > 0 ? 2 : 1; }
  // `visit` gets an accumulator, the number of bytes before its first row, and the number of bytes
  // between rows.
  void ForEachSum(
      int64_t row_stride,
      const std::function<void(llvm::Value* tile, int64_t offset, int64_t row_stride)>& visit);
  void Call(llvm::Intrinsic::ID id, const Values& arguments);
  llvm::Value* Tile(int number) { return e_.b.getInt8(static_cast<uint8_t>(number)); }

  IrEmitter& e_;
  const int rows_[kAmxHalves];
  const int vectors_;
  const int depth_;
};

}  // namespace hpu::graph_compiler
