#include "graph_compiler/contraction/gemm/quantized_weights.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>

#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kTasks = 32;  // of 8-bit weights: enough to balance, long runs to stream
constexpr int64_t kMostRowsAtOnce = 4;
constexpr int64_t kUnrolledSteps = 4;
constexpr int64_t kBytesAhead = 2048;  // of a prefetch along a block
constexpr int kNibbleOffset = 8;       // the offset by which 4 bits are stored

// Operand numbers of the launch; the numbers of the epilogue's operands follow.
enum : uint32_t { kX, kWeights, kScale, kZero };

// The rows of A in the form in which the kernel reads them.
struct Rows {
  Value* base = nullptr;
  MemoryType type = MemoryType::kF32;
  int64_t stride = 0;  // elements
};

absl::Status Check(const QuantizedGemmSpec& spec) {
  for (const MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) {
    if (IsFactorType(access->type)) continue;
    return Unimplemented(spec.name, ": operands beside the weights must be f32, bf16 or f16");
  }
  if (spec.m < 1 || spec.n < 1 || spec.k < 1 || spec.group < 1 || spec.k % spec.group != 0) {
    return InvalidArgument(spec.name, ": ", spec.k, " inner elements in groups of ", spec.group);
  }
  if (spec.half != 0 && spec.n % (2 * spec.half) != 0) {
    return InvalidArgument(spec.name, ": ", spec.n, " columns in blocks of ", 2 * spec.half);
  }
  return absl::OkStatus();
}

class QuantizedGemm {
 public:
  QuantizedGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                const QuantizedGemmSpec& spec)
      : e_(builder, target),
        frame_(frame),
        spec_(spec),
        groups_(spec.k / spec.group),
        pairs_(TakesPairs(target, spec)) {}

  // AVX512_BF16 multiplies pairs along k, and one table makes both halves of a pair.
  static bool TakesPairs(const TargetInfo& target, const QuantizedGemmSpec& spec) {
    return target.avx512_bf16 && spec.half != 0 && spec.x.type == MemoryType::kBF16 &&
           spec.x.col_stride == 1 && spec.group % 2 == 0;
  }
  static bool CopiesRows(const TargetInfo& target, const QuantizedGemmSpec& spec) {
    if (TakesPairs(target, spec)) return false;
    return spec.x.type != MemoryType::kF32 || spec.x.col_stride != 1;
  }
  static int64_t CopiedBytes(const TargetInfo& target, const QuantizedGemmSpec& spec) {
    return CopiesRows(target, spec) ? spec.m * RoundUp(spec.k, target.f32_lanes) * 4 : 0;
  }
  static bool HasScale(const QuantizedGemmSpec& spec) {
    return spec.scale.buffer.kind != OperandRef::Kind::kNull;
  }
  static bool HasZero(const QuantizedGemmSpec& spec) {
    return spec.zero.buffer.kind != OperandRef::Kind::kNull;
  }
  // Scratch holds the rows in f32, then the sums of their groups.
  static uint64_t ScratchBytes(const TargetInfo& target, const QuantizedGemmSpec& spec) {
    const int64_t sums = HasZero(spec) ? spec.m * (spec.k / spec.group) * 4 : 0;
    return static_cast<uint64_t>(CopiedBytes(target, spec) + sums);
  }
  static int64_t ColumnsPerTask(const TargetInfo& target, const QuantizedGemmSpec& spec) {
    if (spec.half != 0) return 2 * spec.half;
    return RoundUp(CeilDiv(spec.n, kTasks), target.f32_lanes);
  }

  void Emit(Value* task) {
    PrepareRows();
    if (HasZero(spec_)) SumGroups();
    Value* first = e_.Mul(task, ColumnsPerTask(e_.target(), spec_));
    if (spec_.half != 0)
      return EachBlockOfRows(RowsOfBlock(),
                             [&](Value* row, int64_t rows) { Block(task, first, row, rows); });
    Value* end = e_.Min(e_.Add(first, ColumnsPerTask(e_.target(), spec_)), e_.Int(spec_.n));
    e_.For(first, end, e_.lanes(), [&](Value* col) {
      EachBlockOfRows(kMostRowsAtOnce, [&](Value* row, int64_t rows) { Columns(col, row, rows); });
    });
  }

 private:
  template <typename Run>
  void EachBlockOfRows(int64_t most, const Run& run) {
    const int64_t full = spec_.m / most * most;
    e_.For(e_.Int(0), e_.Int(full), most, [&](Value* row) { run(row, most); });
    if (full < spec_.m) run(e_.Int(full), spec_.m - full);
  }

  void PrepareRows() {
    rows_ = {frame_.Operand(e_.b, kX), spec_.x.type, spec_.x.row_stride};
    sums_of_x_ = e_.Address(frame_.scratch, CopiedBytes(e_.target(), spec_));
    if (!CopiesRows(e_.target(), spec_)) return;
    const int64_t stride = RoundUp(spec_.k, e_.lanes());
    EmitMatrixCopy(e_, {rows_.base, spec_.x.type, spec_.x.row_stride, spec_.x.col_stride},
                   {frame_.scratch, stride, stride}, e_.Int(spec_.m), e_.Int(spec_.k));
    rows_ = {frame_.scratch, MemoryType::kF32, stride};
  }

  Value* RowAddress(Value* row, int64_t further, Value* k) {
    const int64_t size = MemoryTypeSize(rows_.type);
    Value* base = e_.Address(rows_.base, e_.Mul(row, rows_.stride * size));
    return e_.Address(e_.Address(base, e_.Mul(k, size)), further * rows_.stride * size);
  }

  // Walks over [begin, begin + group) by `step` as far as it goes, then under masks of the
  // remainder.
  template <typename Step>
  Values EachOfGroup(Value* begin, int64_t step, const Values& init, const Step& body) {
    const int64_t full = spec_.group / step * step;
    Values state = e_.For(begin, e_.Add(begin, full), step, init,
                          [&](Value* k, const Values& s) { return body(k, step, nullptr, s); });
    for (int64_t done = full; done < spec_.group; done += e_.lanes()) {
      const int64_t left = std::min<int64_t>(spec_.group - done, e_.lanes());
      Value* mask = left == e_.lanes() ? nullptr : e_.LaneMask(e_.Int(left), e_.lanes());
      state = body(e_.Add(begin, done), e_.lanes(), mask, state);
    }
    return state;
  }

  Value* SumOfX(Value* row, int64_t further, Value* group) {
    Value* place = e_.Add(e_.Mul(e_.Add(row, further), groups_), group);
    return e_.Address(sums_of_x_, e_.Mul(place, 4));
  }

  void SumGroups() {
    e_.For(e_.Int(0), e_.Int(spec_.m), 1, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(groups_), 1, [&](Value* group) {
        const Values sums = EachOfGroup(
            e_.Mul(group, spec_.group), e_.lanes(), {e_.Zero(e_.lanes())},
            [&](Value* k, int64_t, Value* mask, const Values& s) -> Values {
              Value* x = e_.LoadWide(RowAddress(row, 0, k), rows_.type, e_.lanes(), mask);
              return {e_.b.CreateFAdd(s[0], x)};
            });
        Value* sum = e_.SumLanes(Values(static_cast<size_t>(e_.lanes()), sums[0]));
        e_.StoreF32(SumOfX(row, 0, group), e_.b.CreateExtractElement(sum, uint64_t{0}));
      });
    });
  }

  Value* FactorAddress(uint32_t operand, const MatrixAccess& factor, Value* group, Value* col) {
    Value* place = e_.Add(e_.Mul(group, factor.row_stride), e_.Mul(col, factor.col_stride));
    return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(place, MemoryTypeSize(factor.type)));
  }

  Value* AddScaled(Value* total, Value* scale, Value* sum) {
    return scale == nullptr ? e_.b.CreateFAdd(total, sum) : e_.Fma(scale, sum, total);
  }

  // With 8 bits, lanes run along k.

  void Columns(Value* col, Value* row, int64_t rows) {
    int64_t at_once = std::min<int64_t>(8, e_.lanes());
    while (at_once > 1 && at_once * rows > 8) at_once /= 2;
    std::vector<Values> sums(static_cast<size_t>(rows));
    for (int64_t first = 0; first < e_.lanes(); first += at_once) {
      const Values part = DotColumns(e_.Add(col, first), at_once, row, rows);
      for (int64_t i = 0; i < at_once * rows; ++i) {
        sums[static_cast<size_t>(i % rows)].push_back(part[static_cast<size_t>(i)]);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      Finish(e_.Add(row, r), col, e_.SumLanes(sums[static_cast<size_t>(r)]));
    }
  }

  // Returns vectors whose lanes add up to the results of `count` columns with `rows` rows, as
  // [column][row]. Columns beyond n read the last one.
  Values DotColumns(Value* col, int64_t count, Value* row, int64_t rows) {
    Values numbers, addresses;
    for (int64_t i = 0; i < count; ++i) {
      Value* number = e_.Add(col, i);
      if (spec_.n % e_.lanes() != 0) number = e_.Min(number, e_.Int(spec_.n - 1));
      numbers.push_back(number);
      addresses.push_back(
          e_.Address(frame_.Operand(e_.b, kWeights), e_.Mul(number, spec_.weight_stride)));
    }
    const Values zeros(static_cast<size_t>(count * rows), e_.Zero(e_.lanes()));
    const auto step = [&](Value* k, int64_t steps, Value* mask, Values sums) {
      for (int64_t line = 0; mask == nullptr && line < steps; line += kLineBytes) {
        // The next columns follow right after these.
        for (Value* address : addresses) {
          e_.PrefetchToL2(e_.Address(e_.Address(address, k), line + count * spec_.weight_stride));
        }
      }
      for (int64_t part = 0; part < steps; part += e_.lanes()) {
        DotStep(addresses, e_.Add(k, part), mask, row, rows, sums);
      }
      return sums;
    };
    return e_.For(e_.Int(0), e_.Int(groups_), 1, zeros, [&](Value* group, Values totals) {
      const Values sums = EachOfGroup(e_.Mul(group, spec_.group), StepAlongK(), zeros, step);
      for (int64_t i = 0; i < count; ++i) {
        Value* number = numbers[static_cast<size_t>(i)];
        Value* scale = HasScale(spec_)
                           ? e_.Splat(Factor(kScale, spec_.scale, group, number), e_.lanes())
                           : nullptr;
        Value* zero = HasZero(spec_) ? Factor(kZero, spec_.zero, group, number) : nullptr;
        for (int64_t r = 0; r < rows; ++r) {
          Value*& total = totals[static_cast<size_t>(i * rows + r)];
          total = AddScaled(total, scale, sums[static_cast<size_t>(i * rows + r)]);
          if (zero != nullptr) total = AddSpread(total, zero, row, r, group);
        }
      }
      return totals;
    });
  }

  int64_t StepAlongK() const {
    return spec_.group % (kUnrolledSteps * e_.lanes()) == 0 ? kUnrolledSteps * e_.lanes()
                                                            : e_.lanes();
  }

  Value* Factor(uint32_t operand, const MatrixAccess& factor, Value* group, Value* col) {
    return e_.LoadWide(FactorAddress(operand, factor, group, col), factor.type, 1);
  }

  // Adds zero * (sum of x), an equal part in each lane: the number of lanes is a power of two, so
  // nothing is rounded.
  Value* AddSpread(Value* total, Value* zero, Value* row, int64_t further, Value* group) {
    Value* sum = e_.LoadF32(SumOfX(row, further, group), 1);
    Value* part = e_.b.CreateFMul(sum, e_.F32Const(1.0f / static_cast<float>(e_.lanes()), 1));
    return e_.Fma(e_.Splat(zero, e_.lanes()), e_.Splat(part, e_.lanes()), total);
  }

  void DotStep(const Values& addresses, Value* k, Value* mask, Value* row, int64_t rows,
               Values& sums) {
    Values x;
    for (int64_t r = 0; r < rows; ++r) {
      x.push_back(e_.LoadWide(RowAddress(row, r, k), rows_.type, e_.lanes(), mask));
    }
    for (size_t i = 0; i < addresses.size(); ++i) {
      Value* q = e_.LoadWide(e_.Address(addresses[i], k), MemoryType::kI8, e_.lanes(), mask);
      Value* weight = e_.b.CreateSIToFP(q, e_.F32(e_.lanes()));
      for (int64_t r = 0; r < rows; ++r) {
        Value*& sum = sums[i * static_cast<size_t>(rows) + static_cast<size_t>(r)];
        sum = e_.Fma(x[static_cast<size_t>(r)], weight, sum);
      }
    }
  }

  // With 4 bits, lanes are columns.

  int64_t vectors() const { return 2 * spec_.half / e_.lanes(); }

  int64_t RowsOfBlock() const {
    const int64_t sums = e_.target().vector_registers / 2;
    return std::clamp<int64_t>(sums / vectors(), 1, kMostRowsAtOnce);
  }

  void Block(Value* block, Value* first, Value* row, int64_t rows) {
    Value* base = e_.Address(frame_.Operand(e_.b, kWeights), e_.Mul(block, spec_.weight_stride));
    const Values zeros(static_cast<size_t>(vectors() * rows), e_.Zero(e_.lanes()));
    const int64_t steps = spec_.group % kUnrolledSteps == 0 ? kUnrolledSteps : pairs_ ? 2 : 1;
    const Values totals =
        e_.For(e_.Int(0), e_.Int(groups_), 1, zeros, [&](Value* group, Values sums_so_far) {
          Value* begin = e_.Mul(group, spec_.group);
          const Values sums = e_.For(begin, e_.Add(begin, spec_.group), steps, zeros,
                                     [&](Value* k, const Values& carried) {
                                       return BlockSteps(base, k, steps, row, rows, carried);
                                     });
          AddGroup(group, first, row, rows, InOrder(sums), sums_so_far);
          return sums_so_far;
        });
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t v = 0; v < vectors(); ++v) {
        Finish(e_.Add(row, r), e_.Add(first, v * e_.lanes()),
               totals[static_cast<size_t>(r * vectors() + v)]);
      }
    }
  }

  // Sums are in the order [row][vector], here and below.
  Values BlockSteps(Value* base, Value* k, int64_t steps, Value* row, int64_t rows, Values sums) {
    Value* from = e_.Address(base, e_.Mul(k, spec_.half));
    for (int64_t line = 0; line < steps * spec_.half; line += kLineBytes) {
      e_.PrefetchToL2(e_.Address(from, line + kBytesAhead));
    }
    const int64_t step = pairs_ ? 2 : 1;
    for (int64_t i = 0; i < steps; i += step) {
      const Values weights = pairs_ ? WeightPairs(e_.Address(from, i * spec_.half))
                                    : Weights(e_.Address(from, i * spec_.half));
      for (int64_t r = 0; r < rows; ++r) {
        Value* x = SplatOfX(RowAddress(row, r, e_.Add(k, i)));
        for (int64_t v = 0; v < vectors(); ++v) {
          Value*& sum = sums[static_cast<size_t>(r * vectors() + v)];
          Value* weight = weights[static_cast<size_t>(v)];
          sum = pairs_ ? e_.DotPairs(x, weight, sum) : e_.Fma(x, weight, sum);
        }
      }
    }
    return sums;
  }

  Value* SplatOfX(Value* address) {
    if (!pairs_) return e_.Splat(e_.LoadWide(address, rows_.type, 1), e_.lanes());
    Value* pair = e_.b.CreateAlignedLoad(e_.b.getInt32Ty(), address, llvm::Align(2));
    return e_.Splat(pair, e_.lanes());
  }

  llvm::Type* Integers(unsigned bits, int lanes) {
    return llvm::FixedVectorType::get(e_.b.getIntNTy(bits), lanes);
  }

  Value* LoadBytes(Value* address) {
    Value* bytes = e_.b.CreateAlignedLoad(Integers(8, e_.lanes()), address, llvm::Align(1));
    return e_.b.CreateZExt(bytes, Integers(32, e_.lanes()));
  }

  // Returns all columns of a block at one k.
  Values Weights(Value* address) {
    Values low, high;
    for (int64_t place = 0; place < spec_.half; place += e_.lanes()) {
      Value* bytes = LoadBytes(e_.Address(address, place));
      low.push_back(Widen(bytes));
      high.push_back(Widen(e_.b.CreateLShr(bytes, 4)));
    }
    low.insert(low.end(), high.begin(), high.end());
    return low;
  }

  // Returns the number in the low 4 bits of every lane. Where registers hold a table of 16, the
  // number is looked up there, and the lookup reads no other bits.
  Value* Widen(Value* integers) {
    if (e_.lanes() == 16) {
      std::vector<llvm::Constant*> table;
      for (int i = 0; i < 16; ++i) {
        table.push_back(llvm::ConstantFP::get(e_.b.getFloatTy(), i - kNibbleOffset));
      }
      return e_.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
                                  {llvm::ConstantVector::get(table), integers});
    }
    llvm::Type* type = integers->getType();
    Value* number = e_.b.CreateAnd(integers, llvm::ConstantInt::get(type, 15));
    number = e_.b.CreateSub(number, llvm::ConstantInt::get(type, kNibbleOffset));
    return e_.b.CreateSIToFP(number, e_.F32(e_.lanes()));
  }

  // Returns the weights at k and k + 1 as dwords of two bf16. A lookup of words reads five bits, so
  // the table has each number twice. Words that hold two columns of a row each are paired with
  // those of the next row first, so that nothing is widened before it is looked up; even columns
  // then stand apart from odd ones until InOrder.
  Values WeightPairs(Value* address) {
    std::vector<llvm::Constant*> table;
    for (int i = 0; i < 32; ++i) {
      const float number = static_cast<float>(i % 16 - kNibbleOffset);
      table.push_back(e_.b.getInt16(static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16)));
    }
    const auto look_up = [&](Value* words, int shift) {
      if (shift > 0) words = e_.b.CreateLShr(words, shift);
      return e_.b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_hi_512, {},
                                  {llvm::ConstantVector::get(table), words});
    };
    llvm::Type* words_type = Integers(16, 2 * e_.lanes());
    if (KeepsParity()) {
      Value* rows = e_.b.CreateAlignedLoad(words_type, address, llvm::Align(1));
      Value* words = e_.b.CreateShuffleVector(rows, Zipped(0, e_.lanes(), e_.lanes()));
      return {look_up(words, 0), look_up(words, 8), look_up(words, 4), look_up(words, 12)};
    }
    Value* even = LoadBytes(address);
    Value* odd = LoadBytes(e_.Address(address, spec_.half));
    Value* words = e_.b.CreateBitCast(e_.b.CreateOr(even, e_.b.CreateShl(odd, 16)), words_type);
    return {look_up(words, 0), look_up(words, 4)};
  }

  // Returns whether vectors of sums hold even columns first, then odd ones.
  bool KeepsParity() const { return pairs_ && spec_.half == 2 * e_.lanes(); }

  // Returns first, second, first + 1, second + 1 ... with `count` of each.
  static std::vector<int> Zipped(int first, int second, int count) {
    std::vector<int> order;
    for (int i = 0; i < count; ++i) {
      order.push_back(first + i);
      order.push_back(second + i);
    }
    return order;
  }

  Values InOrder(Values sums) {
    if (!KeepsParity()) return sums;
    const int lanes = e_.lanes(), half = lanes / 2;
    for (size_t i = 0; i < sums.size(); i += 2) {
      Value* even = sums[i];
      Value* odd = sums[i + 1];
      sums[i] = e_.b.CreateShuffleVector(even, odd, Zipped(0, lanes, half));
      sums[i + 1] = e_.b.CreateShuffleVector(even, odd, Zipped(half, lanes + half, half));
    }
    return sums;
  }

  void AddGroup(Value* group, Value* first, Value* row, int64_t rows, const Values& sums,
                Values& totals) {
    for (int64_t v = 0; v < vectors(); ++v) {
      Value* col = e_.Add(first, v * e_.lanes());
      Value* scale = HasScale(spec_) ? Factors(kScale, spec_.scale, group, col) : nullptr;
      Value* zero = HasZero(spec_) ? Factors(kZero, spec_.zero, group, col) : nullptr;
      for (int64_t r = 0; r < rows; ++r) {
        const auto i = static_cast<size_t>(r * vectors() + v);
        totals[i] = AddScaled(totals[i], scale, sums[i]);
        if (zero == nullptr) continue;
        Value* sum = e_.Splat(e_.LoadF32(SumOfX(row, r, group), 1), e_.lanes());
        totals[i] = e_.Fma(zero, sum, totals[i]);
      }
    }
  }

  // Returns the factors of a vector of columns. Every second element comes out of two loads that
  // meet in the middle, so that nothing after the last one is touched.
  Value* Factors(uint32_t operand, const MatrixAccess& factor, Value* group, Value* col) {
    const int lanes = e_.lanes();
    Value* address = FactorAddress(operand, factor, group, col);
    const int64_t size = MemoryTypeSize(factor.type);
    if (factor.col_stride == 1) return e_.LoadWide(address, factor.type, lanes);
    if (factor.col_stride == 2) {
      Value* front = e_.LoadWide(address, factor.type, lanes);
      Value* back = e_.LoadWide(e_.Address(address, (lanes - 1) * size), factor.type, lanes);
      std::vector<int> order;
      for (int i = 0; i < lanes; ++i) order.push_back(i < lanes / 2 ? 2 * i : 2 * i + 1);
      return e_.b.CreateShuffleVector(front, back, order);
    }
    Value* vector = e_.Zero(lanes);
    for (int i = 0; i < lanes; ++i) {
      Value* element =
          e_.LoadWide(e_.Address(address, i * factor.col_stride * size), factor.type, 1);
      vector = e_.b.CreateInsertElement(vector, element, static_cast<uint64_t>(i));
    }
    return vector;
  }

  void Finish(Value* row, Value* col, Value* sums) {
    EmitRowEpilogue(e_, frame_, spec_.epilogue, {row, col}, spec_.n, sums);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const QuantizedGemmSpec& spec_;
  const int64_t groups_;
  const bool pairs_;
  Rows rows_;
  Value* sums_of_x_ = nullptr;
};

}  // namespace

absl::StatusOr<EmittedKernels> EmitQuantizedGemmKernels(KernelCache& cache,
                                                        const QuantizedGemmSpec& given) {
  RETURN_IF_ERROR(Check(given));
  const TargetInfo& target = cache.module().target();
  QuantizedGemmSpec spec = given;
  const bool has_zero = QuantizedGemm::HasZero(spec);
  for (MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) FoldOffset(*access);
  std::vector<OperandRef> operands = {spec.x.buffer, spec.weights, spec.scale.buffer,
                                      spec.zero.buffer};
  spec.epilogue = BindEpilogue(given.epilogue, given.epilogue_operands, operands);

  KernelKey key("quantized_gemm");
  key.Add(spec.m).Add(spec.n).Add(spec.k).Add(spec.group).Add(spec.half).Add(spec.weight_stride);
  key.Add(QuantizedGemm::HasScale(spec)).Add(has_zero);
  for (const MatrixAccess* access : {&spec.x, &spec.scale, &spec.zero}) {
    key.Add(access->type).Add(access->row_stride).Add(access->col_stride);
  }
  key.Add(spec.epilogue);

  KernelLaunch launch;
  launch.operands = std::move(operands);
  launch.tasks =
      static_cast<uint64_t>(CeilDiv(spec.n, QuantizedGemm::ColumnsPerTask(target, spec)));
  launch.scratch_bytes = QuantizedGemm::ScratchBytes(target, spec);
  launch.engine = Engine::kMme;
  launch.name = spec.name;
  launch.flops = 2 * static_cast<uint64_t>(spec.m * spec.n * spec.k);
  const int64_t weight_bytes = spec.n * spec.k / (spec.half != 0 ? 2 : 1);
  const int factors = QuantizedGemm::HasScale(spec) + has_zero;
  const int64_t factor_bytes = spec.k / spec.group * spec.n * MemoryTypeSize(spec.scale.type);
  launch.bytes = static_cast<uint64_t>(weight_bytes + factor_bytes * factors +
                                       spec.m * spec.k * MemoryTypeSize(spec.x.type)) +
                 EpilogueBytes(spec.epilogue, static_cast<uint64_t>(spec.m * spec.n));
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry =
      cache.GetOrAdd(key, "quantized_gemm",
                     [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
                       QuantizedGemm(builder, target, frame, spec).Emit(task);
                     });
  EmittedKernels out;
  out.launches.push_back(std::move(launch));
  return out;
}

}  // namespace hpu::graph_compiler
