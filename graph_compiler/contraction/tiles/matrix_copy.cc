#include "graph_compiler/contraction/tiles/matrix_copy.h"

#include <numeric>
#include <optional>

#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kMaxUnrolledVectors = 4;
constexpr int64_t kMaxUnrolledScalars = 8;  // channels of images, mostly three
// The least number of columns that pays for a block in registers.
constexpr int64_t kFewestTransposedColumns = 4;
// With as many blocks, another one for a few columns is an eighth of the work.
constexpr int64_t kBlocksBesideAnOverlap = 8;

class MatrixCopy {
 public:
  MatrixCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target, Value* rows,
             Value* cols)
      : e_(e), source_(source), target_(target), rows_(rows), cols_(cols), lanes_(e.lanes()) {}

  void RowsContiguous() {
    e_.For(e_.Int(0), rows_, 1, [&](Value* row) {
      const std::optional<int64_t> fixed = UnrollableColumns();
      if (fixed.has_value()) return CopyPieces(row, *fixed);
      Value* full = e_.Mul(e_.DivConst(cols_, lanes_), lanes_);
      e_.For(e_.Int(0), full, lanes_, [&](Value* col) { CopyVector(row, col); });
      CopyScalars(row, full);
    });
  }

  void ColumnsContiguous() {
    if (OverlapPays()) return WholeBlocks();
    Value* full_rows = e_.Mul(e_.DivConst(rows_, lanes_), lanes_);
    const int64_t full_cols = target_.padded_cols / lanes_ * lanes_;
    const int64_t rest = target_.padded_cols - full_cols;
    if (full_cols == 0 && rest < kFewestTransposedColumns) return Scattered();
    e_.For(e_.Int(0), full_rows, lanes_, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(full_cols), lanes_,
             [&](Value* col) { CopyTransposed(row, col, lanes_); });
      if (rest > 0) CopyTransposed(row, e_.Int(full_cols), rest);
    });
    e_.For(full_rows, rows_, 1, [&](Value* row) { CopyScalars(row, e_.Int(0)); });
  }

  void Scattered() {
    const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(cols_);
    const bool few = fixed != nullptr && fixed->getSExtValue() <= kMaxUnrolledScalars &&
                     fixed->getSExtValue() >= target_.padded_cols;
    Value* done = e_.Int(0);
    if (few && source_.row_stride == 1 && target_.row_stride == fixed->getSExtValue()) {
      done = e_.Mul(e_.DivConst(rows_, lanes_), lanes_);
      e_.For(e_.Int(0), done, lanes_,
             [&](Value* row) { CopyInterleaved(row, target_.row_stride); });
    }
    e_.For(done, rows_, 1, [&](Value* row) {
      if (!few) return CopyScalars(row, e_.Int(0));
      for (int64_t col = 0; col < fixed->getSExtValue(); ++col) CopyScalar(row, e_.Int(col));
    });
  }

 private:
  std::optional<int64_t> UnrollableColumns() const {
    const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(cols_);
    if (fixed == nullptr || fixed->getSExtValue() != target_.padded_cols) return std::nullopt;
    if (target_.padded_cols > kMaxUnrolledVectors * lanes_) return std::nullopt;
    return target_.padded_cols;
  }

  // Whether the last block of columns may overlap with the one before, and costs little by that.
  bool OverlapPays() const {
    const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(cols_);
    if (fixed == nullptr || fixed->getSExtValue() != target_.padded_cols) return false;
    const int64_t rest = target_.padded_cols % lanes_;
    const bool mostly_new = rest == 0 || rest >= lanes_ / 2;
    return target_.padded_cols >= (mostly_new ? 1 : kBlocksBesideAnOverlap) * lanes_;
  }

  // Copies blocks of `lanes` rows and columns. The last ones overlap with those before, which
  // writes the same again. So there is one piece of code, which does not depend on the rest of a
  // division.
  void WholeBlocks() {
    Value* enough = e_.b.CreateICmpSGE(rows_, e_.Int(lanes_));
    Value* in_blocks = e_.b.CreateSelect(enough, rows_, e_.Int(0));
    e_.For(e_.Int(0), in_blocks, lanes_, [&](Value* from_row) {
      Value* row = e_.Min(from_row, e_.Add(rows_, -lanes_));
      e_.For(e_.Int(0), cols_, lanes_, [&](Value* from_col) {
        Value* col = e_.Min(from_col, e_.Int(target_.padded_cols - lanes_));
        Values columns;
        for (int j = 0; j < lanes_; ++j) {
          columns.push_back(e_.LoadWide(SourceAddress(row, e_.Add(col, j)), source_.type, lanes_));
        }
        const Values rows = e_.Transpose(std::move(columns));
        for (int i = 0; i < lanes_; ++i) Store(TargetAddress(e_.Add(row, i), col), rows[i]);
      });
    });
    e_.For(in_blocks, rows_, 1, [&](Value* row) { CopyScalars(row, e_.Int(0)); });
  }

  Value* SourceAddress(Value* row, Value* col) {
    const int size = MemoryTypeSize(source_.type);
    return e_.Address(source_.base, e_.Add(e_.Mul(row, source_.row_stride * size),
                                           e_.Mul(col, source_.col_stride * size)));
  }

  Value* TargetAddress(Value* row, Value* col) {
    const int size = MemoryTypeSize(target_.type);
    return e_.Address(target_.base,
                      e_.Add(e_.Mul(row, target_.row_stride * size), e_.Mul(col, size)));
  }

  // A bf16 is the upper half of the f32 that it was widened to.
  void Store(Value* address, Value* value) {
    if (target_.type == MemoryType::kF32) return e_.StoreF32(address, value);
    llvm::Type* type = value->getType();
    Value* bits = e_.b.CreateBitCast(value, WithLanesOf(e_.b.getInt32Ty(), type));
    Value* half = e_.b.CreateTrunc(e_.b.CreateLShr(bits, 16), WithLanesOf(e_.b.getInt16Ty(), type));
    e_.b.CreateAlignedStore(half, address, llvm::Align(2));
  }

  void CopyVector(Value* row, Value* col) { CopyRun(row, col, lanes_); }

  void CopyRun(Value* row, Value* col, int count) {
    Store(TargetAddress(row, col), e_.LoadWide(SourceAddress(row, col), source_.type, count));
  }

  // Copies `count` columns as vectors and, at the end, halves of them.
  void CopyPieces(Value* row, int64_t count) {
    int64_t col = 0;
    for (int size = lanes_; size >= 1; size /= 2) {
      for (; col + size <= count; col += size) CopyRun(row, e_.Int(col), size);
    }
  }

  void CopyScalar(Value* row, Value* col) {
    Store(TargetAddress(row, col), e_.LoadWide(SourceAddress(row, col), source_.type, 1));
  }

  // Copies columns [from, cols) one by one, then writes zeros.
  void CopyScalars(Value* row, Value* from) {
    e_.For(from, cols_, 1, [&](Value* col) { CopyScalar(row, col); });
    e_.For(cols_, e_.Int(target_.padded_cols), 1,
           [&](Value* col) { Store(TargetAddress(row, col), e_.Zero(1)); });
  }

  // Copies as many rows as lanes, which follow each other without a gap, as `count` vectors.
  // Further columns are added to them one by one.
  void CopyInterleaved(Value* row, int64_t count) {
    Values columns;
    for (int64_t col = 0; col < count; ++col) {
      columns.push_back(e_.LoadWide(SourceAddress(row, e_.Int(col)), source_.type, lanes_));
    }
    for (int64_t v = 0; v < count; ++v) {
      Value* joined = columns[0];
      for (int64_t col = 1; col < count; ++col) {
        std::vector<int> order;
        for (int64_t lane = 0; lane < lanes_; ++lane) {
          const int64_t element = v * lanes_ + lane;
          const auto from_row = static_cast<int>(element / count);
          const int64_t at = element % count;
          const int before = col == 1 ? from_row : static_cast<int>(lane);
          order.push_back(at < col ? before : at == col ? lanes_ + from_row : 0);
        }
        joined = e_.b.CreateShuffleVector(joined, columns[static_cast<size_t>(col)], order);
      }
      Store(e_.Address(TargetAddress(row, e_.Int(0)), v * lanes_ * MemoryTypeSize(target_.type)),
            joined);
    }
  }

  // Copies a block of `lanes` rows x `width` columns, at most `lanes`; missing columns read the
  // last one (a valid address) and become 0.
  void CopyTransposed(Value* row, Value* col, int64_t width) {
    Value* last = e_.Add(cols_, -1);
    Values columns;
    for (int j = 0; j < lanes_; ++j) {
      if (j >= width) {
        columns.push_back(e_.Zero(lanes_));
        continue;
      }
      Value* number = e_.Add(col, j);
      Value* vector = e_.LoadWide(SourceAddress(row, e_.Min(number, last)), source_.type, lanes_);
      Value* exists = e_.b.CreateICmpSLE(number, last);
      columns.push_back(e_.b.CreateSelect(exists, vector, e_.Zero(lanes_)));
    }
    const Values rows = e_.Transpose(std::move(columns));
    for (int i = 0; i < lanes_; ++i) StorePieces(e_.Add(row, i), col, rows[i], width);
  }

  // Stores the first `count` lanes of a vector.
  void StorePieces(Value* row, Value* col, Value* vector, int64_t count) {
    int64_t from = 0;
    for (int size = lanes_; size >= 1; size /= 2) {
      for (; from + size <= count; from += size) {
        Value* piece = vector;
        if (size == 1) {
          piece = e_.b.CreateExtractElement(vector, static_cast<uint64_t>(from));
        } else if (size < lanes_) {
          std::vector<int> order(static_cast<size_t>(size));
          std::iota(order.begin(), order.end(), static_cast<int>(from));
          piece = e_.b.CreateShuffleVector(vector, order);
        }
        Store(TargetAddress(row, e_.Add(col, from)), piece);
      }
    }
  }

  IrEmitter& e_;
  const MatrixSource& source_;
  const MatrixTarget& target_;
  Value* rows_;
  Value* cols_;
  int lanes_;
};

class PairCopy {
 public:
  PairCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target, int64_t cols)
      : e_(e), source_(source), target_(target), cols_(cols), pairs_((cols + 1) / 2) {}

  void Run(Value* rows) {
    Value* done = e_.Int(0);
    if (source_.row_stride == 1 && target_.row_stride == pairs_ && pairs_ <= 2) {
      done = e_.Mul(e_.DivConst(rows, e_.lanes()), e_.lanes());
      e_.For(e_.Int(0), done, e_.lanes(), [&](Value* row) { Rows(row); });
    }
    e_.For(done, rows, 1, [&](Value* row) {
      for (int64_t pair = 0; pair < pairs_; ++pair) {
        Value* low = e_.b.CreateZExt(Halves(row, 2 * pair, 1), e_.b.getInt32Ty());
        Value* high = e_.b.CreateZExt(Halves(row, 2 * pair + 1, 1), e_.b.getInt32Ty());
        Store(row, pair, e_.b.CreateOr(low, e_.b.CreateShl(high, 16)));
      }
    });
  }

 private:
  Value* Halves(Value* row, int64_t col, int count) {
    llvm::Type* type = count == 1 ? static_cast<llvm::Type*>(e_.b.getInt16Ty())
                                  : llvm::FixedVectorType::get(e_.b.getInt16Ty(), count);
    if (col >= cols_) return llvm::Constant::getNullValue(type);
    Value* address = e_.Address(source_.base, e_.Add(e_.Mul(row, source_.row_stride * 2),
                                                     e_.Int(col * source_.col_stride * 2)));
    return e_.b.CreateAlignedLoad(type, address, llvm::Align(2));
  }

  void Store(Value* row, int64_t pair, Value* dwords) {
    Value* address =
        e_.Address(target_.base, e_.Add(e_.Mul(row, target_.row_stride * 4), e_.Int(pair * 4)));
    e_.b.CreateAlignedStore(dwords, address, llvm::Align(4));
  }

  // Copies as many rows as lanes, which follow each other in both matrices.
  void Rows(Value* row) {
    Value* joined = Zip(Halves(row, 0, e_.lanes()), Halves(row, 1, e_.lanes()));
    if (pairs_ == 2) {
      llvm::Type* dwords = llvm::FixedVectorType::get(e_.b.getInt32Ty(), e_.lanes());
      Value* second = Zip(Halves(row, 2, e_.lanes()), Halves(row, 3, e_.lanes()));
      joined = Zip(e_.b.CreateBitCast(joined, dwords), e_.b.CreateBitCast(second, dwords));
    }
    Store(row, 0, joined);
  }

  // Returns x[0], y[0], x[1], y[1] ...
  Value* Zip(Value* x, Value* y) {
    std::vector<int> order;
    for (int i = 0; i < e_.lanes(); ++i) {
      order.push_back(i);
      order.push_back(e_.lanes() + i);
    }
    return e_.b.CreateShuffleVector(x, y, order);
  }

  IrEmitter& e_;
  const MatrixSource& source_;
  const MatrixTarget& target_;
  const int64_t cols_, pairs_;
};

}  // namespace

void EmitMatrixCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target,
                    Value* rows, Value* cols) {
  MatrixCopy copy(e, source, target, rows, cols);
  if (source.col_stride == 1) {
    copy.RowsContiguous();
  } else if (source.row_stride == 1) {
    copy.ColumnsContiguous();
  } else {
    copy.Scattered();
  }
}

void EmitPairCopy(IrEmitter& e, const MatrixSource& source, const MatrixTarget& target, Value* rows,
                  int64_t cols) {
  PairCopy(e, source, target, cols).Run(rows);
}

}  // namespace hpu::graph_compiler
