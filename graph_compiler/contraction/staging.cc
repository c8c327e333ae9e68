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

// Rows of bf16, read as pairs of columns.
class PairRows {
 public:
  PairRows(IrEmitter& e, const MatrixAccess& a, Value* from, Value* to, int64_t to_stride)
      : e_(e), a_(a), from_(from), to_(to), to_stride_(to_stride) {}

  void Copy(Value* rows, int64_t pairs) {
    const int lanes = e_.lanes();
    if (a_.row_stride != 1 || pairs < lanes) return Scalars(e_.Int(0), rows, pairs);
    Value* full = e_.Mul(e_.DivConst(rows, lanes), lanes);
    e_.For(e_.Int(0), e_.Int(pairs), lanes, [&](Value* begin) {
      // The last block overlaps the one before it where pairs do not divide.
      Value* pair = pairs % lanes == 0 ? begin : e_.Min(begin, e_.Int(pairs - lanes));
      e_.For(e_.Int(0), full, lanes, [&](Value* row) { Transposed(row, pair); });
    });
    Scalars(full, rows, pairs);
  }

 private:
  Value* Source(Value* row, Value* col) {
    return e_.Address(from_,
                      e_.Add(e_.Mul(row, a_.row_stride * 2), e_.Mul(col, a_.col_stride * 2)));
  }
  Value* Target(Value* row, Value* pair) {
    return e_.Address(to_, e_.Add(e_.Mul(row, to_stride_ * 2), e_.Mul(pair, 4)));
  }
  Value* Load(Value* row, Value* col, int lanes) {
    llvm::Type* type = lanes == 1 ? static_cast<llvm::Type*>(e_.b.getInt16Ty())
                                  : llvm::FixedVectorType::get(e_.b.getInt16Ty(), lanes);
    return e_.b.CreateAlignedLoad(type, Source(row, col), llvm::Align(2));
  }

  // lanes x lanes pairs: a vector of rows per pair becomes a vector of pairs per row.
  void Transposed(Value* row, Value* pair) {
    const int lanes = e_.lanes();
    std::vector<int> zip;
    for (int i = 0; i < lanes; ++i) {
      zip.push_back(i);
      zip.push_back(lanes + i);
    }
    Values columns;
    for (int i = 0; i < lanes; ++i) {
      Value* col = e_.Mul(e_.Add(pair, i), 2);
      Value* joined =
          e_.b.CreateShuffleVector(Load(row, col, lanes), Load(row, e_.Add(col, 1), lanes), zip);
      columns.push_back(e_.b.CreateBitCast(joined, e_.F32(lanes)));
    }
    const Values rows = e_.Transpose(std::move(columns));
    for (int i = 0; i < lanes; ++i) e_.StoreF32(Target(e_.Add(row, i), pair), rows[i]);
  }

  void Scalars(Value* first, Value* end, int64_t pairs) {
    e_.For(first, end, 1, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(pairs), 1, [&](Value* pair) {
        for (int half = 0; half < 2; ++half) {
          Value* element = Load(row, e_.Add(e_.Mul(pair, 2), half), 1);
          e_.b.CreateAlignedStore(element, e_.Address(Target(row, pair), half * 2), llvm::Align(2));
        }
      });
    });
  }

  IrEmitter& e_;
  const MatrixAccess& a_;
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
           int64_t cols, const CopyRows& copy, MatrixAccess& a, EmittedKernels& out) {
  const DenseBatch dense = DenseDimensions(batch, a.batch_strides);
  const int64_t size = MemoryTypeSize(a.type);
  const int64_t staged_size = MemoryTypeSize(form.type);
  const int64_t row_stride = StagedRowStride(cols, staged_size);
  const int64_t chunks = CeilDiv(rows, form.rows_per_task);
  const uint64_t staged_bytes =
      static_cast<uint64_t>(dense.count * rows * row_stride * staged_size);
  const OperandRef staged = ReserveStaged(staged_bytes, out);

  KernelKey key(form.kernel);
  key.Add(dense.sizes).Add(dense.strides).Add(a.type).Add(a.row_stride).Add(a.col_stride);
  key.Add(rows).Add(cols);
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
  Stage(cache, kRows, batch, rows, cols, copy, a, out);
}

void StagePairs(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
                MatrixAccess& a, EmittedKernels& out) {
  const auto copy = [&](IrEmitter& e, Value* from, Value* to, int64_t row_stride, Value* count) {
    PairRows(e, a, from, to, row_stride).Copy(count, cols / 2);
  };
  Stage(cache, kPairRows, batch, rows, cols, copy, a, out);
}

}  // namespace hpu::graph_compiler
