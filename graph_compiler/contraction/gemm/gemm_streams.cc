// Products of a few rows (m <= kMaxStreamedRows). Reading B takes most of the time: every byte of B
// is read once, in place, in the order in which it lies.
#include <algorithm>

#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/gemm/groups.h"
#include "graph_compiler/contraction/tiles/epilogue.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kAccumulators = 8;          // registers for sums, at any target
constexpr int64_t kStreamTasks = 32;      // enough to balance, few enough to stream long runs
constexpr int64_t kMinStreamCols = 64;    // 256 bytes of f32: long runs for the prefetcher
constexpr int64_t kMaxStreamCols = 1024;  // sums of 4 rows stay in L1

KernelLaunch MakeLaunch(const BoundGemm& gemm, int64_t tasks_per_matrix) {
  KernelLaunch launch;
  launch.operands = gemm.operands;
  launch.tasks = static_cast<uint64_t>(gemm.batch_count() * tasks_per_matrix);
  launch.engine = Engine::kMme;
  launch.name = gemm.name;
  launch.flops = gemm.total_flops;
  launch.bytes = gemm.total_bytes;
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  return launch;
}

KernelKey MakeKey(const std::string& kind, const BoundGemm& gemm, int64_t cols_per_task) {
  KernelKey key(kind);
  key.Add(gemm.batch.size());
  if (!gemm.batch.empty()) key.Add(gemm.batch[0] == 1);
  for (size_t i = 1; i < gemm.batch.size(); ++i) key.Add(gemm.batch[i]);
  key.Add(gemm.m).Add(gemm.n).Add(gemm.k).Add(gemm.a.type).Add(gemm.b.type).Add(cols_per_task);
  for (const MatrixAccess* access : {&gemm.a, &gemm.b}) {
    key.Add(access->batch_strides).Add(access->row_stride).Add(access->col_stride);
  }
  return key.Add(gemm.groups).Add(gemm.epilogue);
}

class StreamedGemm {
 public:
  StreamedGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
               const BoundGemm& gemm, int64_t cols_per_task, Value* task)
      : e_(builder, target),
        frame_(frame),
        gemm_(gemm),
        cols_per_task_(cols_per_task),
        a_size_(MemoryTypeSize(gemm.a.type)),
        b_size_(MemoryTypeSize(gemm.b.type)),
        pairs_(target.avx512_bf16 && HoldsBF16(gemm.a.type) && HoldsBF16(gemm.b.type)) {
    const int64_t blocks = CeilDiv(gemm.n, cols_per_task);
    first_col_ = e_.Mul(e_.RemConst(task, blocks), cols_per_task);
    batch_index_ = e_.Decompose(e_.DivConst(task, blocks), gemm.batch);
    a_ = e_.Address(frame.Operand(builder, 0),
                    e_.Mul(e_.Dot(batch_index_, gemm.a.batch_strides), a_size_));
    b_ = MatrixOfB();
    end_col_ = e_.Min(e_.Add(first_col_, cols_per_task), e_.Int(gemm.n));
  }

  // For contiguous columns of B: handles `lanes` columns at a time, each a dot product with the
  // rows of A.
  void Dots() {
    e_.For(first_col_, end_col_, e_.lanes(), [&](Value* col) {
      const Values sums = DotGroup(col);
      for (int64_t row = 0; row < gemm_.m; ++row) Finish(e_.Int(row), col, sums[row]);
    });
  }

  // For contiguous rows of B: sums += A[:, k..] * B[k.., cols], with a few rows of B per pass.
  void Rows() {
    const int64_t stride = cols_per_task_ * 4;
    Value* cols = e_.Sub(end_col_, first_col_);
    Value* full = e_.Mul(e_.DivConst(cols, e_.lanes()), e_.lanes());
    for (int64_t row = 0; row < gemm_.m; ++row) {
      e_.For(e_.Int(0), cols, e_.lanes(), [&](Value* col) {
        e_.StoreF32(e_.Address(frame_.scratch, e_.Add(e_.Mul(col, 4), row * stride)),
                    e_.Zero(e_.lanes()));
      });
    }
    const int64_t step = std::max<int64_t>(1, kAccumulators / gemm_.m);
    const int64_t stepped = gemm_.k / step * step;
    e_.For(e_.Int(0), e_.Int(stepped), step, [&](Value* k) { RowPass(k, step, cols, full); });
    e_.For(e_.Int(stepped), e_.Int(gemm_.k), 1, [&](Value* k) { RowPass(k, 1, cols, full); });
    e_.For(e_.Int(0), e_.Int(gemm_.m), 1, [&](Value* row) {
      e_.For(e_.Int(0), cols, e_.lanes(), [&](Value* col) {
        Value* sums = e_.LoadF32(
            e_.Address(frame_.scratch, e_.Add(e_.Mul(col, 4), e_.Mul(row, stride))), e_.lanes());
        Finish(row, e_.Add(first_col_, col), sums);
      });
    });
  }

 private:
  // Returns the address of the matrix that the rows multiply.
  Value* MatrixOfB() {
    if (gemm_.groups == 0) {
      return e_.Address(frame_.Operand(e_.b, 1),
                        e_.Mul(e_.Dot(batch_index_, gemm_.b.batch_strides), b_size_));
    }
    Value* ends = frame_.Operand(e_.b, kEndsOfGroups);
    Value* group = GroupOfRow(e_, ends, gemm_.groups, batch_index_[0]);
    has_group_ = e_.b.CreateICmpSLT(group, e_.Int(gemm_.groups));
    return MatrixOfGroup(e_, frame_, e_.Min(group, e_.Int(gemm_.groups - 1)),
                         BytesBetweenMatrices(gemm_.b));
  }

  Values DotGroup(Value* col) {
    const int lanes = e_.lanes();
    const int m = static_cast<int>(gemm_.m);
    int at_once = kAccumulators;
    while (at_once * m > kAccumulators || at_once > lanes) at_once /= 2;
    std::vector<Values> sums(m);
    for (int first = 0; first < lanes; first += at_once) {
      const Values part = DotColumns(e_.Add(col, first), at_once);
      for (int i = 0; i < at_once; ++i) {
        for (int row = 0; row < m; ++row) sums[row].push_back(part[i * m + row]);
      }
    }
    Values result;
    for (int row = 0; row < m; ++row) result.push_back(e_.SumLanes(sums[row]));
    return result;
  }

  // Returns vector sums of `count` columns with every row. Columns beyond n read the last one.
  Values DotColumns(Value* col, int count) {
    Values columns;
    for (int i = 0; i < count; ++i) {
      Value* number = e_.Add(col, i);
      if (gemm_.n % e_.lanes() != 0) number = e_.Min(number, e_.Int(gemm_.n - 1));
      columns.push_back(e_.Address(b_, e_.Mul(number, gemm_.b.col_stride * b_size_)));
    }
    const int step = pairs_ ? 2 * e_.lanes() : e_.lanes();
    const int64_t full = gemm_.k / step * step;
    const Values init(static_cast<size_t>(count * gemm_.m), e_.Zero(e_.lanes()));
    Values sums = e_.For(e_.Int(0), e_.Int(full), step, init, [&](Value* k, const Values& s) {
      // The next columns follow right after these.
      for (Value* column : columns) {
        e_.PrefetchToL2(e_.Address(e_.Address(column, e_.Mul(k, b_size_)),
                                   count * gemm_.b.col_stride * b_size_));
      }
      return DotStep(columns, k, nullptr, s);
    });
    if (full == gemm_.k) return sums;
    return DotStep(columns, e_.Int(full), e_.LaneMask(e_.Int(gemm_.k - full), step), sums);
  }

  Values DotStep(const Values& columns, Value* k, Value* mask, Values sums) {
    const auto load = [&](Value* address, MemoryType type) {
      return pairs_ ? e_.LoadBF16(address, type, 2 * e_.lanes(), mask)
                    : e_.LoadWide(address, type, e_.lanes(), mask);
    };
    Values a;
    for (int64_t row = 0; row < gemm_.m; ++row) {
      Value* address =
          e_.Address(e_.Address(a_, e_.Mul(k, a_size_)), row * gemm_.a.row_stride * a_size_);
      a.push_back(load(address, gemm_.a.type));
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      Value* b = load(e_.Address(columns[i], e_.Mul(k, b_size_)), gemm_.b.type);
      for (int64_t row = 0; row < gemm_.m; ++row) {
        Value*& sum = sums[i * static_cast<size_t>(gemm_.m) + static_cast<size_t>(row)];
        sum = pairs_ ? e_.DotPairs(a[row], b, sum) : e_.Fma(a[row], b, sum);
      }
    }
    return sums;
  }

  void RowPass(Value* k, int64_t steps, Value* cols, Value* full) {
    Values a;  // [step][row]
    for (int64_t i = 0; i < steps; ++i) {
      for (int64_t row = 0; row < gemm_.m; ++row) {
        Value* address =
            e_.Address(a_, e_.Add(e_.Mul(k, a_size_), (i + row * gemm_.a.row_stride) * a_size_));
        a.push_back(e_.Splat(e_.LoadWide(address, gemm_.a.type, 1), e_.lanes()));
      }
    }
    Value* source =
        e_.Address(b_, e_.Mul(e_.Add(first_col_, e_.Mul(k, gemm_.b.row_stride)), b_size_));
    e_.For(e_.Int(0), full, e_.lanes(),
           [&](Value* col) { RowStep(a, source, steps, col, nullptr); });
    if (gemm_.n % e_.lanes() == 0) return;
    Value* mask = e_.LaneMask(e_.Int(gemm_.n % e_.lanes()), e_.lanes());
    e_.If(e_.b.CreateICmpSLT(full, cols), [&] { RowStep(a, source, steps, full, mask); });
  }

  void RowStep(const Values& a, Value* source, int64_t steps, Value* col, Value* mask) {
    Values sums;
    Value* target = e_.Address(frame_.scratch, e_.Mul(col, 4));
    for (int64_t row = 0; row < gemm_.m; ++row) {
      sums.push_back(e_.LoadF32(e_.Address(target, row * cols_per_task_ * 4), e_.lanes()));
    }
    for (int64_t i = 0; i < steps; ++i) {
      Value* address =
          e_.Address(e_.Address(source, i * gemm_.b.row_stride * b_size_), e_.Mul(col, b_size_));
      Value* b = e_.LoadWide(address, gemm_.b.type, e_.lanes(), mask);
      for (int64_t row = 0; row < gemm_.m; ++row) {
        sums[row] = e_.Fma(a[i * gemm_.m + row], b, sums[row]);
      }
    }
    for (int64_t row = 0; row < gemm_.m; ++row) {
      e_.StoreF32(e_.Address(target, row * cols_per_task_ * 4), sums[row]);
    }
  }

  // Runs the epilogue of `lanes` columns.
  void Finish(Value* row, Value* col, Value* sums) {
    Values index = batch_index_;
    if (gemm_.groups == 0) {
      index.push_back(row);
    } else {
      sums = e_.b.CreateSelect(has_group_, sums, e_.Zero(e_.lanes()));
    }
    index.push_back(col);
    EmitRowEpilogue(e_, frame_, gemm_.epilogue, index, gemm_.n, sums);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const BoundGemm& gemm_;
  const int64_t cols_per_task_;
  const int a_size_, b_size_;
  const bool pairs_;  // AVX512_BF16 multiplies pairs along k
  Values batch_index_;
  Value* first_col_ = nullptr;
  Value* end_col_ = nullptr;
  Value* a_ = nullptr;
  Value* b_ = nullptr;
  Value* has_group_ = nullptr;
};

}  // namespace

KernelLaunch EmitDotGemm(KernelCache& cache, const BoundGemm& gemm) {
  const TargetInfo& target = cache.module().target();
  const int64_t cols = RoundUp(CeilDiv(gemm.n, kStreamTasks), target.f32_lanes);
  KernelLaunch launch = MakeLaunch(gemm, CeilDiv(gemm.n, cols));
  launch.entry =
      cache.GetOrAdd(MakeKey("gemm_dot", gemm, cols), "gemm_dot",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       StreamedGemm(builder, target, frame, gemm, cols, task).Dots();
                     });
  return launch;
}

KernelLaunch EmitRowStreamGemm(KernelCache& cache, const BoundGemm& gemm) {
  const TargetInfo& target = cache.module().target();
  const int64_t cols = RoundUp(
      std::clamp(CeilDiv(gemm.n, kStreamTasks), kMinStreamCols, kMaxStreamCols), target.f32_lanes);
  KernelLaunch launch = MakeLaunch(gemm, CeilDiv(gemm.n, cols));
  launch.scratch_bytes = static_cast<uint64_t>(gemm.m * cols * 4);
  launch.entry =
      cache.GetOrAdd(MakeKey("gemm_rows", gemm, cols), "gemm_rows",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       StreamedGemm(builder, target, frame, gemm, cols, task).Rows();
                     });
  return launch;
}

}  // namespace hpu::graph_compiler
