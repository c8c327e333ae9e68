#include "graph_compiler/contraction/tiles/tap_panel.h"

#include <algorithm>
#include <cstdlib>

#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

int64_t NumTaps(const PanelCopy& panel) { return panel.k() / panel.fastest_k; }

// Returns the elements from a tap to the next, 1 or -1, or 0 if taps do not lie together.
int64_t TapStride(const PanelCopy& panel) {
  int64_t expected = 0;
  for (size_t i = panel.k_sizes.size() - 1; i-- > 0;) {
    if (panel.k_sizes[i] == 1) continue;
    if (expected == 0) expected = panel.k_strides[i];
    if (std::abs(expected) < 1 || panel.k_strides[i] != expected) return 0;
    expected *= panel.k_sizes[i];
  }
  const int64_t step = NumTaps(panel) == 0 ? 0 : expected / NumTaps(panel);
  return std::abs(step) == 1 ? step : 0;
}

class TapPanel {
 public:
  TapPanel(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to, Value* cols)
      : e_(e),
        panel_(panel),
        to_(to),
        cols_(cols),
        lanes_(e.lanes()),
        size_(MemoryTypeSize(panel.type)),
        taps_(NumTaps(panel)),
        existing_(panel.k_sizes.back()),
        row_bytes_(panel.panel_cols * 4),
        tap_bytes_(panel.fastest_k / 2 * row_bytes_),
        reverse_(TapStride(panel) < 0) {
    first_ = reverse_ ? e.Address(from, -(taps_ - 1) * size_) : from;
  }

  void Emit() {
    e_.For(e_.Int(0), e_.Int(existing_ / 2), 1, [&](Value* pair) { Pair(pair, true); });
    if (existing_ % 2 != 0) Pair(e_.Int(existing_ / 2), false);
    FillUp();
    if (!panel_.read_next) e_.StoreFence();
  }

 private:
  int64_t row_vectors() const { return panel_.panel_cols / lanes_; }

  // Writes row number `pair` of all taps.
  void Pair(Value* pair, bool has_partner) {
    const int64_t stride = panel_.k_strides.back() * size_;
    Value* source = e_.Address(first_, e_.Mul(pair, 2 * stride));
    Value* target = e_.Address(to_, e_.Mul(pair, row_bytes_));
    for (int64_t begin = 0; begin < taps_; begin += lanes_) {
      const int64_t count = std::min<int64_t>(taps_ - begin, lanes_);
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Values columns;
        for (int64_t i = 0; i < lanes_; ++i) {
          const int64_t col = v * lanes_ + i;
          Value* exists = Exists(col, count);
          Value* low = e_.Address(source, (col * panel_.col_stride + begin) * size_);
          columns.push_back(Join(Load(low, exists),
                                 has_partner ? Load(e_.Address(low, stride), exists) : nullptr));
        }
        const Values rows = e_.Transpose(std::move(columns));
        for (int64_t i = 0; i < count; ++i) {
          const int64_t tap = reverse_ ? taps_ - 1 - (begin + i) : begin + i;
          StorePanelRow(e_, panel_, e_.Address(target, tap * tap_bytes_ + v * lanes_ * 4),
                        rows[static_cast<size_t>(i)]);
        }
      }
    }
  }

  // Returns the lanes of a run of `count` taps that exist; null means all.
  Value* Exists(int64_t col, int64_t count) {
    if (cols_ == nullptr) return count == lanes_ ? nullptr : e_.LaneMask(e_.Int(count), lanes_);
    Value* inside = e_.b.CreateICmpSLT(e_.Int(col), cols_);
    return e_.LaneMask(e_.b.CreateSelect(inside, e_.Int(count), e_.Int(0)), lanes_);
  }

  Value* Load(Value* address, Value* exists) {
    return e_.LoadBF16(address, panel_.type, lanes_, exists);
  }

  // Returns dwords with `low` and `high`; a null `high` means 0.
  Value* Join(Value* low, Value* high) {
    llvm::Type* dwords = WithLanes(e_.b.getInt32Ty(), lanes_);
    Value* joined = e_.b.CreateZExt(low, dwords);
    if (high != nullptr) {
      joined = e_.b.CreateOr(joined, e_.b.CreateShl(e_.b.CreateZExt(high, dwords), 16));
    }
    return e_.b.CreateBitCast(joined, e_.F32(lanes_));
  }

  void FillUp() {
    const int64_t filled = (existing_ + 1) / 2;
    if (filled == panel_.fastest_k / 2) return;
    e_.For(e_.Int(0), e_.Int(taps_), 1, [&](Value* tap) {
      Value* rows = e_.Address(to_, e_.Mul(tap, tap_bytes_));
      e_.For(e_.Int(filled), e_.Int(panel_.fastest_k / 2), 1, [&](Value* row) {
        for (int64_t v = 0; v < row_vectors(); ++v) {
          Value* address = e_.Address(rows, e_.Add(e_.Mul(row, row_bytes_), v * lanes_ * 4));
          StorePanelRow(e_, panel_, address, e_.Zero(lanes_));
        }
      });
    });
  }

  IrEmitter& e_;
  const PanelCopy& panel_;
  Value* first_;  // the address of the tap that lies first, for element (0, 0)
  Value* to_;
  Value* cols_;
  const int lanes_;
  const int64_t size_, taps_, existing_, row_bytes_, tap_bytes_;
  const bool reverse_;
};

}  // namespace

bool HasTapsTogether(const TargetInfo& target, const PanelCopy& panel) {
  return panel.packed_type == PanelType::kBF16Pairs && target.avx512_bf16 && NumTaps(panel) > 1 &&
         TapStride(panel) != 0;
}

void EmitTapPanel(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to, Value* cols) {
  TapPanel(e, panel, from, to, cols).Emit();
}

}  // namespace hpu::graph_compiler
