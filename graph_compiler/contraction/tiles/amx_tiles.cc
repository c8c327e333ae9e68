#include "graph_compiler/contraction/tiles/amx_tiles.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kRowBytes = 64;   // of a full tile
constexpr int kMostDepth = 16;  // rows of a tile of B
constexpr int kLeastDepth = 8;
constexpr int kFirstA = 4, kFirstB = 6;
// The operand of LDTILECFG: palette, start row, 14 reserved bytes, 16 row lengths in bytes (u16),
// 16 numbers of rows (u8).
constexpr int kConfigurationBytes = 64, kLengthsAt = 16, kRowsAt = 48;

}  // namespace

int AmxDepth(int64_t pairs) {
  for (int depth = kMostDepth; depth >= kLeastDepth; --depth) {
    if (pairs > 0 && pairs % depth == 0) return depth;
  }
  return 0;
}

int AmxDepthFilledUp(int64_t pairs) {
  if (pairs < kLeastDepth) return 0;
  return static_cast<int>(CeilDiv(pairs, CeilDiv(pairs, kMostDepth)));
}

AmxA AdjacentRows(IrEmitter& e, Value* first, int64_t row_stride) {
  AmxA a;
  a.row_stride = row_stride;
  a.halves[0] = first;
  a.halves[1] = e.Address(first, kAmxRows * row_stride);
  return a;
}

RowTiles AmxRowTiles(int64_t m) {
  constexpr int64_t kMostRows = kAmxHalves * kAmxRows;
  RowTiles tiles;
  tiles.main_rows = static_cast<int>(std::min(m, kMostRows));
  if (m == 0) return tiles;
  tiles.main_count = m / tiles.main_rows;
  tiles.tail_rows = static_cast<int>(m % tiles.main_rows);
  tiles.tail_count = tiles.tail_rows > 0 ? 1 : 0;
  return tiles;
}

AmxTiles::AmxTiles(IrEmitter& e, int rows, int first_rows, int vectors, int depth)
    : e_(e),
      rows_{std::min(rows, first_rows), std::max(rows - first_rows, 0)},
      vectors_(vectors),
      depth_(depth) {}

void AmxTiles::Call(llvm::Intrinsic::ID id, const Values& arguments) {
  e_.b.CreateIntrinsic(id, {}, arguments);
}

void AmxTiles::Configure(const KernelFrame& frame, Value* last_rows) {
  std::vector<uint8_t> bytes(kConfigurationBytes, 0);
  const auto shape = [&](int tile, int rows, int row_bytes) {
    if (rows == 0) return;
    bytes[kLengthsAt + 2 * tile] = static_cast<uint8_t>(row_bytes);
    bytes[kRowsAt + tile] = static_cast<uint8_t>(rows);
  };
  bytes[0] = 1;  // the palette of eight tiles of 16 rows of 64 bytes
  for (int half = 0; half < kAmxHalves; ++half) {
    shape(kFirstA + half, rows_[half], depth_ * 4);
    for (int v = 0; v < vectors_; ++v) {
      shape(half * kAmxVectors + v, rows_[half], kRowBytes);
      shape(kFirstB + v, depth_, kRowBytes);
    }
  }
  Value* slot = frame.StackSlot(kConfigurationBytes);
  llvm::Constant* words = llvm::ConstantDataVector::get(e_.b.getContext(), bytes);
  e_.b.CreateAlignedStore(words, slot, llvm::Align(kConfigurationBytes));
  if (last_rows != nullptr) {
    Value* rows = e_.b.CreateTrunc(last_rows, e_.b.getInt8Ty());
    const int last = halves() - 1;
    e_.b.CreateStore(rows, e_.Address(slot, kRowsAt + kFirstA + last));
    for (int v = 0; v < vectors_; ++v) {
      e_.b.CreateStore(rows, e_.Address(slot, kRowsAt + last * kAmxVectors + v));
    }
  }
  Call(llvm::Intrinsic::x86_ldtilecfg, {slot});
}

void AmxTiles::Release(IrEmitter& e) {
  e.b.CreateIntrinsic(llvm::Intrinsic::x86_tilerelease, {}, {});
}

void AmxTiles::ForEachSum(
    int64_t row_stride,
    const std::function<void(Value* tile, int64_t offset, int64_t row_stride)>& visit) {
  if (row_stride == 0) row_stride = vectors_ * kRowBytes;
  for (int half = 0; half < halves(); ++half) {
    for (int v = 0; v < vectors_; ++v) {
      visit(Tile(half * kAmxVectors + v), half * rows_[0] * row_stride + v * kRowBytes, row_stride);
    }
  }
}

void AmxTiles::Zero() {
  ForEachSum(0,
             [&](Value* tile, int64_t, int64_t) { Call(llvm::Intrinsic::x86_tilezero, {tile}); });
}

void AmxTiles::Load(Value* sums, int64_t row_stride) {
  ForEachSum(row_stride, [&](Value* tile, int64_t offset, int64_t stride) {
    Call(llvm::Intrinsic::x86_tileloadd64, {tile, e_.Address(sums, offset), e_.Int(stride)});
  });
}

void AmxTiles::LoadRow(Value* sums) {
  for (int half = 0; half < halves(); ++half) {
    for (int v = 0; v < vectors_; ++v) {
      Call(llvm::Intrinsic::x86_tileloadd64,
           {Tile(half * kAmxVectors + v), e_.Address(sums, v * kRowBytes), e_.Int(0)});
    }
  }
}

void AmxTiles::Store(Value* sums, int64_t row_stride) {
  ForEachSum(row_stride, [&](Value* tile, int64_t offset, int64_t stride) {
    Call(llvm::Intrinsic::x86_tilestored64, {tile, e_.Address(sums, offset), e_.Int(stride)});
  });
}

void AmxTiles::Accumulate(const AmxA& a, const TileB& b, Value* steps) {
  e_.For(e_.Int(0), steps, depth_, [&](Value* k) {
    for (int v = 0; v < vectors_; ++v) {
      Value* address = e_.Address(e_.Address(b.base, v * kRowBytes), e_.Mul(k, b.k_stride));
      Call(llvm::Intrinsic::x86_tileloadd64, {Tile(kFirstB + v), address, e_.Int(b.k_stride)});
    }
    for (int half = 0; half < halves(); ++half) {
      Value* address = e_.Address(a.halves[half], e_.Mul(k, 4));
      Call(llvm::Intrinsic::x86_tileloadd64, {Tile(kFirstA + half), address, e_.Int(a.row_stride)});
      for (int v = 0; v < vectors_; ++v) {
        Call(b.type == PanelType::kI8Quads ? llvm::Intrinsic::x86_tdpbusd
                                           : llvm::Intrinsic::x86_tdpbf16ps,
             {Tile(half * kAmxVectors + v), Tile(kFirstA + half), Tile(kFirstB + v)});
      }
    }
  });
}

}  // namespace hpu::graph_compiler
