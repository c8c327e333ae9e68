#include "graph_compiler/contraction/tiles/pair_rows.h"

#include <algorithm>

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

class PairRows {
 public:
  PairRows(IrEmitter& e, const MatrixAccess& a, int64_t cols, int64_t filled, Value* from,
           Value* to, int64_t to_stride)
      : e_(e),
        a_(a),
        cols_(cols),
        filled_(filled),
        wide_(2 * e.lanes()),
        from_(from),
        to_(to),
        to_stride_(to_stride) {}

  void Copy(Value* rows) {
    if (a_.col_stride == 1) return Rows(rows);
    if (a_.row_stride == 1) return Columns(rows);
    Scalars(rows);
  }

 private:
  Value* Source(Value* row, Value* col) {
    return e_.Address(from_,
                      e_.Add(e_.Mul(row, a_.row_stride * 2), e_.Mul(col, a_.col_stride * 2)));
  }
  Value* Target(Value* row, Value* col) {
    return e_.Address(to_, e_.Add(e_.Mul(row, to_stride_ * 2), e_.Mul(col, 2)));
  }
  Value* Load(Value* row, Value* col, int lanes, Value* mask = nullptr) {
    llvm::Type* type = lanes == 1 ? static_cast<llvm::Type*>(e_.b.getInt16Ty())
                                  : llvm::FixedVectorType::get(e_.b.getInt16Ty(), lanes);
    if (mask == nullptr) return e_.b.CreateAlignedLoad(type, Source(row, col), llvm::Align(2));
    return e_.b.CreateMaskedLoad(type, Source(row, col), llvm::Align(2), mask,
                                 llvm::Constant::getNullValue(type));
  }

  // Copies of rows end with a line of their own, so the last vector may be written whole.
  void Rows(Value* rows) {
    const int64_t full = cols_ / wide_ * wide_;
    e_.For(e_.Int(0), rows, 1, [&](Value* row) {
      const auto copy = [&](Value* col, Value* mask) {
        e_.b.CreateAlignedStore(Load(row, col, wide_, mask), Target(row, col), llvm::Align(2));
      };
      e_.For(e_.Int(0), e_.Int(full), wide_, [&](Value* col) { copy(col, nullptr); });
      for (int64_t col = full; col < filled_; col += wide_) {
        copy(e_.Int(col), e_.LaneMask(e_.Int(cols_ - col), wide_));
      }
    });
  }

  void Columns(Value* rows) {
    const int lanes = e_.lanes();
    Value* full = e_.Mul(e_.DivConst(rows, lanes), lanes);
    const auto along_columns = [&](Value* row, Value* mask, Value* end) {
      e_.For(e_.Int(0), e_.Int(cols_ / wide_ * wide_), wide_,
             [&](Value* col) { Transposed(row, col, wide_, mask, end); });
      for (int64_t col = cols_ / wide_ * wide_; col < filled_; col += wide_) {
        Transposed(row, e_.Int(col), std::max<int64_t>(0, cols_ - col), mask, end);
      }
    };
    e_.For(e_.Int(0), full, lanes, [&](Value* row) { along_columns(row, nullptr, nullptr); });
    e_.If(e_.b.CreateICmpSLT(full, rows),
          [&] { along_columns(full, e_.LaneMask(e_.Sub(rows, full), lanes), rows); });
  }

  // Transposes lanes x lanes pairs: a vector of rows per pair becomes a vector of pairs per row.
  // `existing` of the columns exist; with `mask`, only the rows before `end` do.
  void Transposed(Value* row, Value* first, int64_t existing, Value* mask, Value* end) {
    const int lanes = e_.lanes();
    std::vector<int> zip;
    for (int i = 0; i < lanes; ++i) {
      zip.push_back(i);
      zip.push_back(lanes + i);
    }
    const auto column = [&](int64_t i) -> Value* {
      if (i < existing) return Load(row, e_.Add(first, i), lanes, mask);
      return llvm::Constant::getNullValue(
          llvm::FixedVectorType::get(e_.b.getInt16Ty(), static_cast<unsigned>(lanes)));
    };
    Values columns;
    for (int64_t i = 0; i < wide_; i += 2) {
      Value* joined = e_.b.CreateShuffleVector(column(i), column(i + 1), zip);
      columns.push_back(e_.b.CreateBitCast(joined, e_.F32(lanes)));
    }
    const Values rows = e_.Transpose(std::move(columns));
    for (int i = 0; i < lanes; ++i) {
      Value* to = e_.Add(row, i);
      const auto store = [&] { e_.StoreF32(Target(to, first), rows[i]); };
      end == nullptr ? store() : e_.If(e_.b.CreateICmpSLT(to, end), store);
    }
  }

  void Scalars(Value* rows) {
    e_.For(e_.Int(0), rows, 1, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(cols_), 1, [&](Value* col) {
        e_.b.CreateAlignedStore(Load(row, col, 1), Target(row, col), llvm::Align(2));
      });
      e_.For(e_.Int(cols_), e_.Int(filled_), 1, [&](Value* col) {
        e_.b.CreateAlignedStore(e_.b.getInt16(0), Target(row, col), llvm::Align(2));
      });
    });
  }

  IrEmitter& e_;
  const MatrixAccess& a_;
  const int64_t cols_;
  const int64_t filled_;
  const int wide_;  // columns of a vector
  Value* from_;
  Value* to_;
  const int64_t to_stride_;  // elements
};

}  // namespace

void EmitPairRows(IrEmitter& e, const MatrixAccess& a, int64_t cols, int64_t filled, Value* from,
                  PairRowsTarget to, Value* rows) {
  PairRows(e, a, cols, filled, from, to.address, to.row_stride).Copy(rows);
}

}  // namespace hpu::graph_compiler
