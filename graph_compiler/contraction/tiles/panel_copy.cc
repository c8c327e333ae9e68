#include "graph_compiler/contraction/tiles/panel_copy.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "graph_compiler/codegen/convert.h"
#include "graph_compiler/contraction/tiles/int8_panel.h"
#include "graph_compiler/contraction/tiles/tap_panel.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kRowsAhead = 32;  // of a prefetch along rows

// One dimension of k. The source's stride counts elements, the panel's counts steps of k.
struct Dimension {
  int64_t size = 0;
  int64_t source_stride = 0;
  int64_t panel_stride = 0;
};

std::vector<Dimension> DimensionsOfK(const PanelCopy& panel) {
  std::vector<Dimension> dims;
  int64_t panel_stride = 1;
  for (size_t i = panel.k_sizes.size(); i-- > 0;) {
    Dimension dim{panel.k_sizes[i], panel.k_strides[i], panel_stride};
    if (i + 1 == panel.k_sizes.size()) dim.size = panel.fastest_k;
    panel_stride *= dim.size;
    if (dim.size == 1) continue;
    // Neighbouring dimensions that run evenly in the source become one.
    if (!dims.empty() && dims.back().source_stride * dims.back().size == dim.source_stride) {
      dims.back().size *= dim.size;
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 1, 1});
  std::reverse(dims.begin(), dims.end());
  return dims;
}

class PanelCopier {
 public:
  PanelCopier(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to)
      : e_(e),
        panel_(panel),
        from_(from),
        to_(to),
        lanes_(e.lanes()),
        source_size_(MemoryTypeSize(panel.type)),
        row_bytes_(panel.panel_cols * PackedSize(panel.packed_type) * KPerStep(panel.packed_type)),
        dims_(DimensionsOfK(panel)) {}

  void Full() {
    if (HasPairsByVectors()) return PairsByVectors(nullptr);
    if (panel_.fills_up_k()) return Scalars(e_.Int(panel_.panel_cols));
    if (panel_.col_stride == 1) return RowsContiguous();
    if (const auto order = OrderInMemory()) return ColumnsContiguous(*order);
    Scalars(e_.Int(panel_.panel_cols));
  }

  // Columns from `cols` on are 0.
  void Short(Value* cols) { HasPairsByVectors() ? PairsByVectors(cols) : Scalars(cols); }

  // Copies element by element; columns from `cols` on and the filling of k are 0.
  void Scalars(Value* cols) {
    e_.For(e_.Int(0), e_.Int(panel_.k()), 1, [&](Value* k) {
      e_.For(e_.Int(0), e_.Int(panel_.panel_cols), 1, [&](Value* col) {
        Value* exists = e_.b.CreateICmpSLT(col, cols);
        if (panel_.fills_up_k()) exists = e_.b.CreateAnd(exists, Exists(k));
        // A missing element reads the first element instead.
        Value* place = e_.Add(SourceOffset(k), e_.Mul(col, panel_.col_stride));
        StoreElement(Source(e_.b.CreateSelect(exists, place, e_.Int(0))), exists, k, col);
      });
    });
  }

  void Restore(Value* cols) {
    const int64_t size = PackedSize(panel_.packed_type);
    llvm::Type* bits = e_.b.getIntNTy(static_cast<unsigned>(8 * size));
    const llvm::Align align(static_cast<uint64_t>(size));
    e_.For(e_.Int(0), cols, 1, [&](Value* col) {
      e_.For(e_.Int(0), e_.Int(panel_.k()), 1, [&](Value* k) {
        const auto restore = [&] {
          Value* from = e_.Address(to_, PackedOffset(k, col));
          Value* place = Source(e_.Add(SourceOffset(k), e_.Mul(col, panel_.col_stride)));
          e_.b.CreateAlignedStore(e_.b.CreateAlignedLoad(bits, from, align), place, align);
        };
        panel_.fills_up_k() ? e_.If(Exists(k), restore) : restore();
      });
    });
  }

 private:
  bool narrow() const { return panel_.packed_type != PanelType::kF32; }
  bool pairs() const { return panel_.packed_type == PanelType::kBF16Pairs; }
  int64_t row_vectors() const { return row_bytes_ / (lanes_ * 4); }
  // Returns the number of source columns that one vector of a row holds.
  int64_t vector_cols() const {
    return panel_.packed_type == PanelType::kBF16Vectors ? 2 * lanes_ : lanes_;
  }

  // Returns whether step k of the panel is a step of the source.
  Value* Exists(Value* k) {
    return e_.b.CreateICmpSLT(e_.RemConst(k, panel_.fastest_k), e_.Int(panel_.k_sizes.back()));
  }

  Value* Source(Value* elements) { return e_.Address(from_, e_.Mul(elements, source_size_)); }

  Value* SourceOffset(Value* k) {
    std::vector<int64_t> sizes, strides;
    for (const Dimension& dim : dims_) {
      sizes.push_back(dim.size);
      strides.push_back(dim.source_stride);
    }
    return e_.Dot(e_.Decompose(k, sizes), strides);
  }

  // Returns whether these are pairs along one k whose rows or columns are contiguous, so that
  // vectors copy them, whatever is filled up.
  bool HasPairsByVectors() const {
    if (!pairs() || !e_.target().avx512_bf16 || dims_.size() != 1) return false;
    const bool one_k = panel_.k() == panel_.fastest_k;
    return (one_k || !panel_.fills_up_k()) &&
           (panel_.col_stride == 1 || dims_[0].source_stride == 1);
  }
  void PairsByVectors(Value* cols) {
    const int64_t existing = panel_.fills_up_k() ? panel_.k_sizes.back() : panel_.k();
    const int64_t filled =
        panel_.col_stride == 1 ? PairRows(existing, cols) : PairColumns(existing, cols);
    e_.For(e_.Int(filled), e_.Int(panel_.k() / 2), 1, [&](Value* row) {
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Store(e_.Address(to_, e_.Add(e_.Mul(row, row_bytes_), v * lanes_ * 4)), e_.Zero(lanes_));
      }
    });
    if (!panel_.read_next) e_.StoreFence();
  }

  // Writes the rows that have elements, from rows of the source. Returns how many there are.
  int64_t PairRows(int64_t existing, Value* cols) {
    const int64_t next = dims_[0].source_stride * source_size_;
    Values masks(static_cast<size_t>(row_vectors()), nullptr);
    for (int64_t v = 0; v < row_vectors() && cols != nullptr; ++v) {
      masks[static_cast<size_t>(v)] = e_.LaneMask(e_.Add(cols, -v * lanes_), lanes_);
    }
    const auto row = [&](Value* number, bool has_partner) {
      Value* from = e_.Address(from_, e_.Mul(number, 2 * next));
      Value* to = e_.Address(to_, e_.Mul(number, row_bytes_));
      Prefetch(e_.Address(from, kRowsAhead * next), row_bytes_);
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Value* address = e_.Address(from, v * lanes_ * source_size_);
        Value* mask = masks[static_cast<size_t>(v)];
        Value* low = LoadHalves(address, lanes_, mask);
        Value* high = has_partner ? LoadHalves(e_.Address(address, next), lanes_, mask)
                                  : llvm::Constant::getNullValue(low->getType());
        Store(e_.Address(to, v * lanes_ * 4), Zip(low, high, 0, lanes_));
      }
    };
    e_.For(e_.Int(0), e_.Int(existing / 2), 1, [&](Value* number) { row(number, true); });
    if (existing % 2 != 0) row(e_.Int(existing / 2), false);
    return CeilDiv(existing, 2);
  }

  // Does the same from columns of the source.
  int64_t PairColumns(int64_t existing, Value* cols) {
    const int64_t blocks = existing / (2 * lanes_);
    Value* all = llvm::Constant::getAllOnesValue(WithLanes(e_.b.getInt1Ty(), 2 * lanes_));
    Value* none = llvm::Constant::getNullValue(all->getType());
    const auto block = [&](Value* begin, int64_t rows, Value* mask) {
      Value* from = e_.Address(from_, e_.Mul(begin, 2 * source_size_));
      if (cols == nullptr) {
        Value* next = e_.Address(from_, panel_.panel_cols * panel_.col_stride * source_size_);
        const int64_t pairs_bytes = row_bytes_ / 2 * source_size_;  // of a row, in the source
        Prefetch(e_.Address(next, e_.Mul(begin, pairs_bytes)), rows * pairs_bytes);
      }
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Values columns;
        for (int64_t i = 0; i < lanes_; ++i) {
          const int64_t col = v * lanes_ + i;
          Value* exists = mask;
          if (cols != nullptr) {
            Value* inside = e_.b.CreateICmpSLT(e_.Int(col), cols);
            exists = e_.b.CreateSelect(inside, mask != nullptr ? mask : all, none);
          }
          Value* address = e_.Address(from, col * panel_.col_stride * source_size_);
          Value* halves = LoadHalves(address, 2 * lanes_, exists);
          columns.push_back(e_.b.CreateBitCast(halves, e_.F32(lanes_)));
        }
        const Values transposed = e_.Transpose(std::move(columns));
        for (int64_t i = 0; i < rows; ++i) {
          Value* to = e_.Address(to_, e_.Mul(e_.Add(begin, i), row_bytes_));
          Store(e_.Address(to, v * lanes_ * 4), transposed[static_cast<size_t>(i)]);
        }
      }
    };
    e_.For(e_.Int(0), e_.Int(blocks * lanes_), lanes_,
           [&](Value* begin) { block(begin, lanes_, nullptr); });
    const int64_t rest = existing - blocks * lanes_ * 2;
    if (rest == 0) return blocks * lanes_;
    block(e_.Int(blocks * lanes_), CeilDiv(rest, 2), e_.LaneMask(e_.Int(rest), 2 * lanes_));
    return CeilDiv(existing, 2);
  }

  // Lanes that `mask` leaves out are not touched and read as 0; null leaves out none.
  Value* LoadHalves(Value* address, int lanes, Value* mask = nullptr) {
    return e_.LoadBF16(address, panel_.type, lanes, mask);
  }
  // Returns dwords (low[i], high[i]) of the halves that lie at `low` and `high` in the vectors x,
  // y.
  Value* Zip(Value* x, Value* y, int low, int high) {
    std::vector<int> order;
    for (int i = 0; i < lanes_; ++i) {
      order.push_back(low + i);
      order.push_back(high + i);
    }
    return e_.b.CreateBitCast(e_.b.CreateShuffleVector(x, y, order), e_.F32(lanes_));
  }

  // Loads `lanes` dwords, lane by lane along a row, from the columns that begin at `address`.
  Value* LoadRow(Value* address) {
    switch (panel_.packed_type) {
      case PanelType::kF32:
        return e_.LoadWide(address, panel_.type, lanes_);
      case PanelType::kBF16Vectors: {
        Value* both = LoadHalves(address, 2 * lanes_);
        return Zip(both, both, 0, lanes_);
      }
      case PanelType::kBF16Pairs: {
        Value* next = e_.Address(address, dims_.back().source_stride * source_size_);
        return Zip(LoadHalves(address, lanes_), LoadHalves(next, lanes_), 0, lanes_);
      }
      default:  // int8_panel.h
        return nullptr;
    }
  }

  // Loads `lanes` dwords along a column, of consecutive k.
  Value* LoadColumn(Value* address) {
    switch (panel_.packed_type) {
      case PanelType::kF32:
        return e_.LoadWide(address, panel_.type, lanes_);
      case PanelType::kBF16Vectors: {
        Value* partner = e_.Address(address, lanes_ * panel_.col_stride * source_size_);
        return Zip(LoadHalves(address, lanes_), LoadHalves(partner, lanes_), 0, lanes_);
      }
      default:  // PairColumns, int8_panel.h
        return nullptr;
    }
  }

  void Store(Value* address, Value* dwords) { StorePanelRow(e_, panel_, address, dwords); }

  void Prefetch(Value* address, int64_t bytes) {
    for (int64_t line = 0; line < bytes; line += kLineBytes) {
      e_.PrefetchToL2(e_.Address(address, line));
    }
  }

  void RowsContiguous() {
    const int64_t step = KPerStep(panel_.packed_type);
    e_.For(e_.Int(0), e_.Int(panel_.k()), step, [&](Value* k) {
      Value* from = Source(SourceOffset(k));
      Value* to = e_.Address(to_, e_.Mul(k, row_bytes_ / step));
      Prefetch(e_.Address(from, kRowsAhead * dims_.back().source_stride * source_size_),
               row_bytes_);
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Store(e_.Address(to, v * lanes_ * 4),
              LoadRow(e_.Address(from, v * vector_cols() * source_size_)));
      }
    });
    if (!panel_.read_next) e_.StoreFence();
  }

  // Returns the dimensions of k by their strides, outermost first, if together they cover the
  // elements of a column without gaps and there are enough elements for vectors.
  std::optional<std::vector<Dimension>> OrderInMemory() const {
    if (panel_.k() < lanes_ * KPerStep(panel_.packed_type)) return std::nullopt;
    std::vector<Dimension> order = dims_;
    std::stable_sort(order.begin(), order.end(), [](const Dimension& x, const Dimension& y) {
      return x.source_stride > y.source_stride;
    });
    int64_t expected = 1;
    for (size_t i = order.size(); i-- > 0; expected *= order[i].size) {
      if (order[i].source_stride != expected) return std::nullopt;
    }
    if (pairs()) return std::nullopt;
    return order;
  }

  void ColumnsContiguous(const std::vector<Dimension>& order) {
    const int64_t step = KPerStep(panel_.packed_type);
    const int64_t rows = panel_.k() / step;
    e_.For(e_.Int(0), e_.Int(rows), lanes_, [&](Value* begin) {
      // The last block overlaps the one before it where rows do not divide.
      Value* row = rows % lanes_ == 0 ? begin : e_.Min(begin, e_.Int(rows - lanes_));
      Value* from = Source(e_.Mul(row, step));
      // Many columns are too many streams for the hardware prefetcher. Panels follow each other in
      // memory, so every block prefetches its share of the next one, in order.
      Value* next = Source(e_.Int(panel_.panel_cols * panel_.col_stride));
      Prefetch(e_.Address(next, e_.Mul(begin, row_bytes_)), lanes_ * row_bytes_);
      Values targets;
      for (int i = 0; i < lanes_; ++i) targets.push_back(TargetRow(e_.Add(row, i), order));
      for (int64_t v = 0; v < row_vectors(); ++v) {
        Values columns;
        for (int64_t i = 0; i < lanes_; ++i) {
          const int64_t col = v * vector_cols() + i;
          columns.push_back(LoadColumn(e_.Address(from, col * panel_.col_stride * source_size_)));
        }
        const Values transposed = e_.Transpose(std::move(columns));
        for (int i = 0; i < lanes_; ++i) {
          Store(e_.Address(targets[i], v * lanes_ * 4), transposed[i]);
        }
      }
    });
    if (!panel_.read_next) e_.StoreFence();
  }

  // Returns where the row that is number `row` in memory goes.
  Value* TargetRow(Value* row, const std::vector<Dimension>& order) {
    std::vector<int64_t> sizes, strides;
    for (const Dimension& dim : order) {
      sizes.push_back(dim.size);
      strides.push_back(dim.panel_stride * row_bytes_);
    }
    return e_.Address(to_, e_.Dot(e_.Decompose(row, sizes), strides));
  }

  // Returns the byte offset in the panel of the element (k, col).
  Value* PackedOffset(Value* k, Value* col) {
    if (!narrow()) return e_.Add(e_.Mul(k, row_bytes_), e_.Mul(col, 4));
    const int64_t step = KPerStep(panel_.packed_type);
    if (step > 1) {
      Value* in_dword = e_.Mul(e_.RemConst(k, step), PackedSize(panel_.packed_type));
      Value* row = e_.Add(e_.Mul(e_.DivConst(k, step), row_bytes_), in_dword);
      return e_.Add(row, e_.Mul(col, 4));
    }
    Value* vector = e_.DivConst(col, lanes_);
    Value* offset = e_.Add(e_.Mul(k, row_bytes_), e_.Mul(e_.RemConst(col, lanes_), 4));
    offset = e_.Add(offset, e_.Mul(e_.DivConst(vector, 2), lanes_ * 4));
    return e_.Add(offset, e_.Mul(e_.RemConst(vector, 2), 2));
  }

  void StoreElement(Value* from, Value* exists, Value* k, Value* col) {
    Value* to = e_.Address(to_, PackedOffset(k, col));
    if (narrow()) {
      Value* element = e_.b.CreateSelect(exists, LoadHalves(from, 1), e_.b.getInt16(0));
      e_.b.CreateAlignedStore(element, to, llvm::Align(2));
    } else {
      e_.StoreF32(to, e_.b.CreateSelect(exists, e_.LoadWide(from, panel_.type, 1), e_.Zero(1)));
    }
  }

  IrEmitter& e_;
  const PanelCopy& panel_;
  Value* from_;
  Value* to_;
  const int lanes_;
  const int64_t source_size_;
  const int64_t row_bytes_;
  const std::vector<Dimension> dims_;  // of k, in the panel's order
};

}  // namespace

int64_t PanelCopy::k() const {
  return std::accumulate(k_sizes.begin(), k_sizes.end() - 1, int64_t{1}, std::multiplies<>()) *
         fastest_k;
}

void StorePanelRow(IrEmitter& e, const PanelCopy& panel, Value* address, Value* dwords) {
  auto* store = e.b.CreateAlignedStore(dwords, address, llvm::Align(e.lanes() * 4));
  if (panel.read_next) return;
  store->setMetadata(
      llvm::LLVMContext::MD_nontemporal,
      llvm::MDNode::get(e.b.getContext(), llvm::ConstantAsMetadata::get(e.b.getInt32(1))));
}

void EmitPanelCopy(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to) {
  Value* all = e.Int(panel.panel_cols);
  if (IsInteger(panel.packed_type)) return EmitIntegerPanel(e, panel, from, to, all);
  if (HasTapsTogether(e.target(), panel)) return EmitTapPanel(e, panel, from, to, nullptr);
  PanelCopier(e, panel, from, to).Full();
}

void EmitShortPanelCopy(IrEmitter& e, const PanelCopy& panel, Value* from, Value* to, Value* cols) {
  if (IsInteger(panel.packed_type)) return EmitIntegerPanel(e, panel, from, to, cols);
  if (HasTapsTogether(e.target(), panel)) return EmitTapPanel(e, panel, from, to, cols);
  PanelCopier(e, panel, from, to).Short(cols);
}

void EmitPanelRestore(IrEmitter& e, const PanelCopy& panel, Value* source, Value* panel_address,
                      Value* cols) {
  PanelCopier(e, panel, source, panel_address).Restore(cols);
}

}  // namespace hpu::graph_compiler
