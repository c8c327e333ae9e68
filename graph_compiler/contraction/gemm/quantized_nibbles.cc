#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>

#include "graph_compiler/contraction/gemm/quantized_gemm.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kMostRowsOfBlock = 4;
constexpr int64_t kUnrolledSteps = 4;
constexpr int64_t kBytesAhead = 2048;  // of a prefetch along a block
constexpr int kNibbleOffset = 8;       // the offset by which 4 bits are stored

// Blocks of 4-bit weights: lanes are columns.
class NibbleGemm : QuantizedGemm {
 public:
  NibbleGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
             const QuantizedGemmSpec& spec)
      : QuantizedGemm(builder, target, frame, spec), pairs_(TakesPairs(target, spec)) {}

  void Emit(Value* task) {
    PrepareRows();
    Value* first = e_.Mul(task, ColumnsPerTask(e_.target(), spec_));
    EachBlockOfRows(RowsOfBlock(),
                    [&](Value* row, int64_t rows) { Block(task, first, row, rows); });
  }

 private:
  int64_t vectors() const { return 2 * spec_.half / e_.lanes(); }

  int64_t RowsOfBlock() const {
    const int64_t sums = e_.target().vector_registers / 2;
    return std::clamp<int64_t>(sums / vectors(), 1, kMostRowsOfBlock);
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
  const bool pairs_;
};

}  // namespace

void EmitNibbleGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                    const QuantizedGemmSpec& spec, Value* task) {
  NibbleGemm(builder, target, frame, spec).Emit(task);
}

}  // namespace hpu::graph_compiler
