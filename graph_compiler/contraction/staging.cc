#include "graph_compiler/contraction/matrix_copy.h"
#include "graph_compiler/contraction/packing.h"
#include "graph_compiler/contraction/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kLineBytes = 64;

// The matrix as a dense one in `staged`; a line more than needed keeps rows of a power of two from
// meeting in one cache set.
int64_t StagedRowStride(int64_t cols, int64_t size) {
  const int64_t line = kLineBytes / size;
  return RoundUp(cols, line) + line;
}

void Redirect(const std::vector<int64_t>& batch, int64_t rows, int64_t row_stride,
              OperandRef staged, MemoryType type, MatrixAccess& a) {
  int64_t count = 0;
  a.batch_strides = DenseBatchStrides(batch, a.batch_strides, &count);
  for (int64_t& stride : a.batch_strides) stride *= rows * row_stride;
  a.buffer = staged;
  a.type = type;
  a.offset = 0;
  a.row_stride = row_stride;
  a.col_stride = 1;
  a.stable = false;
}

// Rows of bf16 as dense ones, from column `cols` on 0 up to `filled`, which is even.
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

  // Copies of rows end with a line of their own, so the last vector is written whole.
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

  // lanes x lanes pairs: a vector of rows per pair becomes a vector of pairs per row. Of the
  // columns `existing` exist; with `mask`, of the rows those before `end`.
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

// How a matrix is staged.
struct Form {
  const char* kernel;
  MemoryType type;  // of what is staged
  int64_t rows_per_task;
};

constexpr Form kRows{"stage_rows", MemoryType::kF32, 16};
constexpr Form kPairRows{"stage_pairs", MemoryType::kBF16,
                         64};  // two lines where columns lie dense

// A launch that copies the matrix of `a` row by row, and `a` as what it leaves. `copy` emits rows
// of one task: from their address to that of their copy, rows `row_stride` elements apart.
template <typename CopyRows>
void Stage(KernelCache& cache, const Form& form, const std::vector<int64_t>& batch, int64_t rows,
           int64_t cols, int64_t filled_cols, const CopyRows& copy, MatrixAccess& a,
           EmittedKernels& out) {
  const DenseBatch dense = DenseDimensions(batch, a.batch_strides);
  const int64_t size = MemoryTypeSize(a.type);
  const int64_t staged_size = MemoryTypeSize(form.type);
  const int64_t row_stride = StagedRowStride(filled_cols, staged_size);
  const int64_t chunks = CeilDiv(rows, form.rows_per_task);
  const uint64_t staged_bytes =
      static_cast<uint64_t>(dense.count * rows * row_stride * staged_size);
  const OperandRef staged = ReserveStaged(staged_bytes, out);

  KernelKey key(form.kernel);
  key.Add(dense.sizes).Add(dense.strides).Add(a.type).Add(a.row_stride).Add(a.col_stride);
  key.Add(rows).Add(cols).Add(filled_cols);
  KernelLaunch launch;
  launch.name = "stage";
  launch.engine = Engine::kMme;
  launch.operands = {a.buffer, staged};
  launch.tasks = static_cast<uint64_t>(dense.count * chunks);
  launch.bytes = staged_bytes + static_cast<uint64_t>(dense.count * rows * cols * size);
  launch.grain = ChooseGrain(launch.tasks, launch.bytes * 4);
  launch.entry = cache.GetOrAdd(
      key, form.kernel, [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, cache.module().target());
        Value* matrix = e.DivConst(task, chunks);
        Value* row = e.Mul(e.RemConst(task, chunks), form.rows_per_task);
        Value* offset =
            e.Add(e.Dot(e.Decompose(matrix, dense.sizes), dense.strides), e.Mul(row, a.row_stride));
        Value* from = e.Address(frame.Operand(builder, 0), e.Mul(offset, size));
        Value* to_row = e.Add(e.Mul(matrix, rows), row);
        Value* to = e.Address(frame.Operand(builder, 1), e.Mul(to_row, row_stride * staged_size));
        copy(e, from, to, row_stride, e.Min(e.Sub(e.Int(rows), row), e.Int(form.rows_per_task)));
      });
  out.launches.push_back(std::move(launch));
  Redirect(batch, rows, row_stride, staged, form.type, a);
}

}  // namespace

OperandRef ReserveStaged(uint64_t bytes, EmittedKernels& out) {
  constexpr uint64_t kAlignment = 128;
  const OperandRef staged{OperandRef::Kind::kWorkspace, kExtraWorkspace, out.workspace_bytes};
  out.workspace_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return staged;
}

void StageRows(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
               MatrixAccess& a, EmittedKernels& out) {
  const auto copy = [&](IrEmitter& e, Value* from, Value* to, int64_t row_stride, Value* count) {
    EmitMatrixCopy(e, {from, a.type, a.row_stride, a.col_stride},
                   {to, row_stride, RoundUp(cols, e.lanes())}, count, e.Int(cols));
  };
  Stage(cache, kRows, batch, rows, cols, cols, copy, a, out);
}

void StagePairs(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
                int64_t filled_cols, MatrixAccess& a, EmittedKernels& out) {
  const auto copy = [&](IrEmitter& e, Value* from, Value* to, int64_t row_stride, Value* count) {
    PairRows(e, a, cols, filled_cols, from, to, row_stride).Copy(count);
  };
  Stage(cache, kPairRows, batch, rows, cols, filled_cols, copy, a, out);
}

}  // namespace hpu::graph_compiler
