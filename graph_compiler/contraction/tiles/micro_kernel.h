// The inner kernel of every contraction: a rows x (vectors * lanes) tile of accumulators is held in
// registers while k runs.
//
//   acc[r][v] += A(r, k) broadcast * B(k, v)
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"

namespace hpu::graph_compiler {

struct TileShape {
  int rows = 0;
  int vectors = 0;  // each has TargetInfo::f32_lanes lanes
};

// f32 elements addressed as row_bases[r or 0] + row_offsets[r] + k * k_stride, in bytes. One base
// and constant offsets cost no registers; one base per row serves irregular rows (pixels).
struct TileA {
  Values row_bases;
  std::vector<int64_t> row_offsets;
  int64_t k_stride = 4;
  llvm::Value* start = nullptr;  // bytes that lie before k = 0; null = none
};

// How a panel of B holds its elements.
enum class PanelType : uint8_t {
  kF32,
  // Pairs of vectors are interleaved as dwords (low half: vector 2i, high half: vector 2i + 1), so
  // that widening to f32 is one shift and one mask.
  kBF16Vectors,
  // Dwords of two consecutive k (low half: the even one) for AVX512_BF16's dot products. A step is
  // two k; A is read as the same dwords.
  kBF16Pairs,
  // 8-bit integers in the form that IrEmitter::DotIntegers takes (int8.h): dwords of four i8 of
  // consecutive k, or of two i16. A row of i32 sums over k ends the panel.
  kI8Quads,
  kI16Pairs,
};
inline bool IsInteger(PanelType type) {
  return type == PanelType::kI8Quads || type == PanelType::kI16Pairs;
}
// Return the bytes per element, and the k per step of the micro-kernel.
inline int64_t PackedSize(PanelType type) {
  return type == PanelType::kF32 ? 4 : type == PanelType::kI8Quads ? 1 : 2;
}
inline int64_t KPerStep(PanelType type) {
  switch (type) {
    case PanelType::kBF16Pairs:
    case PanelType::kI16Pairs:
      return 2;
    case PanelType::kI8Quads:
      return 4;
    default:
      return 1;
  }
}

// Vector v of step k is at base + k * k_stride + v * lanes * 4 bytes (kBF16Vectors: half of that).
struct TileB {
  llvm::Value* base = nullptr;
  int64_t k_stride = 0;
  PanelType type = PanelType::kF32;
  // One per vector, for f32 rows read in place where nothing beyond their end may be touched.
  Values masks;
  // Memory that will be needed soon is prefetched along the way: prefetch_step bytes per k step.
  // This is only a hint, and the addresses need not exist; null = none.
  llvm::Value* prefetch = nullptr;
  int64_t prefetch_step = 0;
};

// Lets the `tiles` passes over a panel prefetch the panel that follows it in memory, a share each.
// `pass` numbers the tile, `k_before` the k steps of the panel before b.base; `steps` are the steps
// of one pass. Does nothing where the passes are too few.
void PrefetchNextPanel(IrEmitter& e, TileB& b, int64_t panel_bytes, int64_t tiles, int64_t steps,
                       llvm::Value* pass, llvm::Value* k_before);

// Accumulators are in row-major order of (row, vector). `count` is the number of k steps.
Values ZeroTile(IrEmitter& e, TileShape shape);
Values LoadTile(IrEmitter& e, TileShape shape, llvm::Value* base, int64_t row_stride_bytes);
void StoreTile(IrEmitter& e, TileShape shape, llvm::Value* base, int64_t row_stride_bytes,
               const Values& accumulators);
Values AccumulateTile(IrEmitter& e, TileShape shape, const TileA& a, const TileB& b, int64_t count,
                      const Values& accumulators);
// For counts that are known only at run time.
Values AccumulateTile(IrEmitter& e, TileShape shape, const TileA& a, const TileB& b,
                      llvm::Value* count, const Values& accumulators);

}  // namespace hpu::graph_compiler
