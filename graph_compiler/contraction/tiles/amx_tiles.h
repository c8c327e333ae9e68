// The inner kernel where the CPU has AMX, in BF16 or INT8: up to 2 x 2 tiles of 16 x 16
// accumulators stay in tile registers while k runs. B lies in the panels of AVX512_BF16
// (PanelType::kBF16Pairs; of 8-bit integers kI8Quads, and "pairs" below are quads), whose 16
// columns of a step are one row of a tile; A is read where it lies, a row of a tile per row.
// Finished accumulators go to memory, where the epilogue reads them row by row.
//
// Tiles: 0 to 3 accumulators (2 * half of A + vector of B), 4 and 5 A, 6 and 7 B.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

inline constexpr int kAmxRows = 16;    // of a tile
inline constexpr int kAmxVectors = 2;  // widest panel
inline constexpr int kAmxHalves = 2;   // tiles of A

// Pairs of k that a tile multiplies at once for a run of `pairs`: the largest divisor that a tile
// holds, so that no run leaves a rest. 0: it would fill less than half a tile.
int AmxDepth(int64_t pairs);
// Of operands that are copied anyway and may be filled up with zeros: the fewest products, then the
// fewest zeros. 0: as above.
int AmxDepthFilledUp(int64_t pairs);

// Vectors per panel for n columns.
inline int AmxPanelVectors(int64_t n) { return n > kAmxRows ? kAmxVectors : 1; }

// Tiles of up to 32 rows, the last one shorter.
RowTiles AmxRowTiles(int64_t m);

// Rows of A from two places, each `row_stride` bytes apart; k is contiguous.
struct AmxA {
  llvm::Value* halves[kAmxHalves] = {};
  int64_t row_stride = 0;
};

class AmxTiles {
 public:
  // Tiles of `rows`: the first half of A takes `first_rows` of them, at most 16, the second the
  // rest. `vectors` of B: 1 or 2.
  AmxTiles(IrEmitter& e, int rows, int first_rows, int vectors, int depth);

  // Shapes of the tiles, which then hold 0. Once before any number of tiles of the same shape.
  void Configure(const KernelFrame& frame);
  // Back to the state in which the CPU need not save tiles; at the end of every task.
  static void Release(IrEmitter& e);

  // Accumulators from and to rows of vectors * 16 f32, those of the first half first; rows lie
  // `row_stride` bytes apart, 0: dense.
  void Zero();
  void Load(llvm::Value* sums, int64_t row_stride = 0);
  // Every row from one.
  void LoadRow(llvm::Value* sums);
  void Store(llvm::Value* sums, int64_t row_stride = 0);
  // `steps` pairs of k, a multiple of the depth.
  void Accumulate(const AmxA& a, const TileB& b, llvm::Value* steps);

 private:
  int halves() const { return rows_[1] > 0 ? 2 : 1; }
  // `visit` gets an accumulator, the bytes that lie before its first row and between rows.
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
