#include "graph_compiler/contraction/tiles/int8.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/packing.h"
#include "graph_compiler/contraction/tiles/pair_rows.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Returns the row stride of the matrix as a dense one in `staged`. One line more than needed keeps
// rows of a power of two from meeting in one cache set.
int64_t StagedRowStride(int64_t cols, int64_t size) {
  const int64_t line = kLineBytes / size;
  return RoundUp(cols, line) + line;
}

// The work of a task where tiles of a matrix are copied: it takes some tiles and a run of k, which
// it walks k by k for each tile, so that lines that two tiles share are still in the cache.
constexpr int64_t kStagedTilesPerTask = 8;
constexpr int64_t kStepsPerTask = 256;

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

// Describes how a matrix is staged.
struct Form {
  const char* kernel;
  MemoryType type;  // of the staged matrix
  int64_t rows_per_task;
  bool dense = false;
  int64_t filled_with = 0;
};

constexpr Form kRows{"stage_rows", MemoryType::kF32, 16};
constexpr Form kPairRows{"stage_pairs", MemoryType::kBF16,
                         64};  // two lines where columns are dense

// Appends a launch that copies the matrix of `a` row by row, and makes `a` refer to the copy.
// `copy` emits the rows of one task: it gets their address and the address of their copy, with rows
// `row_stride` elements apart.
template <typename CopyRows>
void Stage(KernelCache& cache, const Form& form, const std::vector<int64_t>& batch, int64_t rows,
           int64_t cols, int64_t filled_cols, const CopyRows& copy, MatrixAccess& a,
           EmittedKernels& out) {
  const DenseBatch dense = DenseDimensions(batch, a.batch_strides);
  const int64_t size = MemoryTypeSize(a.type);
  const int64_t staged_size = MemoryTypeSize(form.type);
  const int64_t row_stride = form.dense ? filled_cols : StagedRowStride(filled_cols, staged_size);
  const int64_t chunks = CeilDiv(rows, form.rows_per_task);
  const uint64_t staged_bytes =
      static_cast<uint64_t>(dense.count * rows * row_stride * staged_size);
  const OperandRef staged = ReserveStaged(staged_bytes, out);

  KernelKey key(form.kernel);
  key.Add(dense.sizes).Add(dense.strides).Add(a.type).Add(a.row_stride).Add(a.col_stride);
  key.Add(rows).Add(cols).Add(filled_cols).Add(form.dense).Add(form.filled_with);
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

void StageRowPanels(KernelCache& cache, const std::vector<int64_t>& batch, const RowTiles& tiles,
                    int64_t k, MatrixAccess& a, EmittedKernels& out) {
  const DenseBatch dense = DenseDimensions(batch, a.batch_strides);
  const int64_t size = MemoryTypeSize(a.type);
  const int64_t rows = tiles.main_rows * tiles.main_count + tiles.tail_rows * tiles.tail_count;
  const int64_t groups = CeilDiv(tiles.count(), kStagedTilesPerTask);
  const int64_t runs = CeilDiv(k, kStepsPerTask);
  const auto staged_bytes = static_cast<uint64_t>(dense.count * rows * k * 4);
  const OperandRef staged = ReserveStaged(staged_bytes, out);

  KernelKey key("stage_row_panels");
  key.Add(dense.sizes).Add(dense.strides).Add(a.type).Add(a.col_stride).Add(k);
  key.Add(tiles.main_rows).Add(tiles.main_count).Add(tiles.tail_rows).Add(tiles.tail_count);
  KernelLaunch launch;
  launch.name = "stage";
  launch.engine = Engine::kMme;
  launch.operands = {a.buffer, staged};
  launch.tasks = static_cast<uint64_t>(dense.count * groups * runs);
  launch.bytes = staged_bytes + static_cast<uint64_t>(dense.count * rows * k * size);
  launch.grain = ChooseGrain(launch.tasks, launch.bytes * 4);
  launch.entry = cache.GetOrAdd(
      key, "stage_row_panels",
      [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        IrEmitter e(builder, cache.module().target());
        Value* k0 = e.Mul(e.RemConst(task, runs), kStepsPerTask);
        Value* steps = e.Min(e.Sub(e.Int(k), k0), e.Int(kStepsPerTask));
        Value* block = e.DivConst(task, runs);
        Value* first = e.Mul(e.RemConst(block, groups), kStagedTilesPerTask);
        Value* end = e.Min(e.Add(first, kStagedTilesPerTask), e.Int(tiles.count()));
        Value* matrix = e.DivConst(block, groups);
        Value* from = e.Address(frame.Operand(builder, 0),
                                e.Mul(e.Add(e.Dot(e.Decompose(matrix, dense.sizes), dense.strides),
                                            e.Mul(k0, a.col_stride)),
                                      size));
        Value* to = e.Address(frame.Operand(builder, 1), e.Mul(matrix, rows * k * 4));
        const auto copy = [&](int height, Value* tile, int64_t tiles_before) {
          Value* row =
              e.Add(e.Mul(e.Add(tile, -tiles_before), height), tiles_before * tiles.main_rows);
          Value* panel = e.Address(to, e.Add(e.Mul(row, k * 4), e.Mul(k0, height * 4)));
          EmitMatrixCopy(e, {e.Address(from, e.Mul(row, size)), a.type, a.col_stride, 1},
                         {panel, height, height}, steps, e.Int(height));
        };
        e.For(first, e.Min(end, e.Int(tiles.main_count)), 1,
              [&](Value* tile) { copy(tiles.main_rows, tile, 0); });
        if (tiles.tail_count == 0) return;
        e.For(e.Max(first, e.Int(tiles.main_count)), end, 1,
              [&](Value* tile) { copy(tiles.tail_rows, tile, tiles.main_count); });
      });
  out.launches.push_back(std::move(launch));
  Redirect(batch, rows, k, staged, MemoryType::kF32, a);
}

void StagePairs(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows, int64_t cols,
                int64_t filled_cols, MatrixAccess& a, EmittedKernels& out) {
  const auto copy = [&](IrEmitter& e, Value* from, Value* to, int64_t row_stride, Value* count) {
    EmitPairRows(e, a, cols, filled_cols, from, {to, row_stride}, count);
  };
  Stage(cache, kPairRows, batch, rows, cols, filled_cols, copy, a, out);
}

void StageIntegers(KernelCache& cache, const std::vector<int64_t>& batch, int64_t rows,
                   int64_t cols, const IntegerRows& form, MatrixAccess& a, EmittedKernels& out) {
  const bool quads = form.type == PanelType::kI8Quads;
  const Form staged{quads ? "stage_quads" : "stage_words",
                    quads ? MemoryType::kU8 : MemoryType::kI16, 64, form.dense, form.a_zero};
  const auto copy = [&](IrEmitter& e, Value* from, Value* to, int64_t row_stride, Value* count) {
    EmitIntegerRows(e, form.type, a, cols, form.filled_cols, form.a_zero, from, to,
                    row_stride * PackedSize(form.type), count);
  };
  Stage(cache, staged, batch, rows, cols, form.filled_cols, copy, a, out);
}

}  // namespace hpu::graph_compiler
