#include "graph_compiler/contraction/gemm/quantized_gemm.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kRowsOfBlock = 4;
constexpr int64_t kStepsOfColumns = 4;

// Columns of 8-bit weights: lanes run along k.
class ByteGemm : QuantizedGemm {
 public:
  using QuantizedGemm::QuantizedGemm;

  void Emit(Value* task) {
    PrepareRows();
    const int64_t columns = ColumnsPerTask(e_.target(), spec_);
    Value* first = e_.Mul(task, columns);
    Value* end = e_.Min(e_.Add(first, columns), e_.Int(spec_.n));
    e_.For(first, end, e_.lanes(), [&](Value* col) {
      EachBlockOfRows(kRowsOfBlock, [&](Value* row, int64_t rows) { Columns(col, row, rows); });
    });
  }

 private:
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
    return spec_.group % (kStepsOfColumns * e_.lanes()) == 0 ? kStepsOfColumns * e_.lanes()
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
};

}  // namespace

void EmitByteGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                  const QuantizedGemmSpec& spec, Value* task) {
  ByteGemm(builder, target, frame, spec).Emit(task);
}

}  // namespace hpu::graph_compiler
