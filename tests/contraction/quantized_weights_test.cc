#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

struct QuantizedCase {
  int64_t m, n, k;
  int64_t half = 0;    // 0: 8 bits
  int64_t groups = 0;  // 0: no scale
  bool zero = false;
  MemoryType x_type = MemoryType::kF32, factor_type = MemoryType::kF32;
  // The distance between columns of scale and zero: 2 interleaves them, 0 puts groups inside
  // columns.
  int64_t factor_stride = 1;
  bool x_transposed = false;
};

std::string Name(const QuantizedCase& c) {
  std::string name = "m" + std::to_string(c.m) + " n" + std::to_string(c.n) + " k" +
                     std::to_string(c.k) + " half " + std::to_string(c.half) + " groups " +
                     std::to_string(c.groups) + " factor stride " + std::to_string(c.factor_stride);
  if (c.zero) name += " zero";
  if (c.x_transposed) name += " xT";
  return name + " types " + TypeName(c.x_type) + " " + TypeName(c.factor_type);
}

class QuantizedRun {
 public:
  explicit QuantizedRun(const QuantizedCase& c)
      : c_(c),
        pitch_((c.x_transposed ? c.m : c.k) + 3),
        x_(c.x_type, (c.x_transposed ? c.k : c.m) * pitch_ + 2),
        weights_(MemoryType::kU8, WeightBytes() + 1),
        scale_(c.factor_type, FactorElements()),
        zero_(c.factor_type, FactorElements()) {
    x_.FillRandom(1);
    scale_.FillRandom(2, 0.25, 1.75);
    zero_.FillRandom(3);
    std::mt19937 random(4);
    auto* bytes = static_cast<uint8_t*>(weights_.data());
    for (int64_t i = 0; i < weights_.elements(); ++i) bytes[i] = static_cast<uint8_t>(random());

    spec_.m = c.m;
    spec_.n = c.n;
    spec_.k = c.k;
    spec_.group = c.groups == 0 ? c.k : c.k / c.groups;
    spec_.half = c.half;
    spec_.x.type = c.x_type;
    spec_.x.buffer = Persistent(0);
    spec_.x.offset = 2;
    spec_.x.row_stride = c.x_transposed ? 1 : pitch_;
    spec_.x.col_stride = c.x_transposed ? pitch_ : 1;
    spec_.weights = Persistent(1);
    spec_.weights.offset = 1;
    spec_.weight_stride = c.half == 0 ? c.k : c.k * c.half;
    if (c.groups > 0) SetFactor(spec_.scale, 2, 0);
    if (c.zero) SetFactor(spec_.zero, c.factor_stride == 2 ? 2 : 3, c.factor_stride == 2 ? 1 : 0);
    spec_.epilogue = StoreBody(MemoryType::kF32, {c.n + 1, 1}, 1);
    spec_.epilogue_operands = {Persistent(4)};
    spec_.name = "test";
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitQuantizedGemm(spec_); });
    TestBuffer out(MemoryType::kF32, c_.m * (c_.n + 1) + 1);
    TestBuffer again(MemoryType::kF32, c_.m * (c_.n + 1) + 1);
    compiled.Run({&x_, &weights_, &scale_, &zero_, &out}, 1);
    compiled.Run({&x_, &weights_, &scale_, &zero_, &again}, 7, true);
    ASSERT_TRUE(out.GuardsIntact());
    ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size_bytes()), 0) << "split changes bits";
    for (int64_t row = 0; row < c_.m; ++row) {
      for (int64_t col = 0; col < c_.n; ++col) {
        const auto [expected, magnitude] = Reference(row, col);
        // Every product and sum rounds once in f32 (pairs of bf16: twice).
        const double bound = std::ldexp(static_cast<double>(c_.k + 16), -23) * magnitude;
        ASSERT_NEAR(out.Get(1 + row * (c_.n + 1) + col), expected, bound)
            << "row " << row << " col " << col;
      }
      ASSERT_TRUE(std::isnan(out.Get(1 + row * (c_.n + 1) + c_.n))) << "wrote beyond row " << row;
    }
  }

  const QuantizedGemmSpec& spec() const { return spec_; }

 private:
  int64_t WeightBytes() const { return c_.n * c_.k / (c_.half == 0 ? 1 : 2); }
  int64_t FactorElements() const {
    return std::max<int64_t>(1, c_.groups) * c_.n * std::max<int64_t>(1, c_.factor_stride);
  }

  void SetFactor(MatrixAccess& factor, uint32_t operand, int64_t offset) const {
    factor.type = c_.factor_type;
    factor.buffer = Persistent(operand);
    factor.offset = offset;
    factor.row_stride = c_.factor_stride == 0 ? 1 : c_.n * c_.factor_stride;
    factor.col_stride = c_.factor_stride == 0 ? c_.groups : c_.factor_stride;
  }

  double Weight(int64_t k, int64_t col) const {
    const auto* bytes = static_cast<const uint8_t*>(const_cast<TestBuffer&>(weights_).data()) + 1;
    if (c_.half == 0) return static_cast<int8_t>(bytes[col * c_.k + k]);
    const int64_t block = col / (2 * c_.half), column = col % (2 * c_.half);
    const uint8_t byte = bytes[(block * c_.k + k) * c_.half + column % c_.half];
    return (column < c_.half ? byte & 15 : byte >> 4) - 8;
  }

  double Factor(const MatrixAccess& factor, int64_t group, int64_t col) const {
    const TestBuffer& buffer = factor.buffer.index == 2 ? scale_ : zero_;
    return buffer.Get(factor.offset + group * factor.row_stride + col * factor.col_stride);
  }

  // Returns the sum, and the sum of the magnitudes of everything that is added.
  std::pair<double, double> Reference(int64_t row, int64_t col) const {
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < c_.k; ++k) {
      const double x = x_.Get(2 + row * spec_.x.row_stride + k * spec_.x.col_stride);
      const int64_t group = k / spec_.group;
      const double scale = c_.groups > 0 ? Factor(spec_.scale, group, col) : 1;
      const double zero = c_.zero ? Factor(spec_.zero, group, col) : 0;
      const double weight = Weight(k, col) * scale;
      sum += x * (weight + zero);
      magnitude += std::fabs(x) * (std::fabs(weight) + std::fabs(zero));
    }
    return {sum, magnitude};
  }

  QuantizedCase c_;
  int64_t pitch_;
  TestBuffer x_, weights_, scale_, zero_;
  QuantizedGemmSpec spec_;
};

class QuantizedWeights : public testing::TestWithParam<IsaLevel> {};

TEST_P(QuantizedWeights, EightBitsOfAnySize) {
  constexpr int64_t kSizes[][3] = {{1, 1, 1},    {1, 77, 200}, {2, 16, 31}, {3, 77, 64},
                                   {4, 33, 256}, {5, 16, 200}, {16, 1, 64}, {40, 77, 31}};
  for (const auto& [m, n, k] : kSizes) QuantizedRun({m, n, k}).Check(GetParam());
}

TEST_P(QuantizedWeights, EightBitsInGroups) {
  for (const int64_t groups : {1, 2, 5}) {
    for (const bool zero : {false, true}) {
      const int64_t k = groups == 2 ? 70 : 320;
      QuantizedRun({3, 37, k, 0, groups, zero, MemoryType::kBF16, MemoryType::kBF16, groups % 5})
          .Check(GetParam());
    }
  }
}

TEST_P(QuantizedWeights, FourBits) {
  for (const int64_t half : {16, 32}) {
    for (const int64_t m : {1, 6, 40}) {
      for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
        QuantizedRun({m, 4 * half, 128, half, m == 6 ? 1 : 4, true, type, type, 2})
            .Check(GetParam());
      }
    }
  }
  QuantizedRun({2, 64, 64, 32, 2, true, MemoryType::kF16, MemoryType::kF16, 2}).Check(GetParam());
}

TEST_P(QuantizedWeights, FourBitsOfOddSizes) {
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
    QuantizedRun({3, 64, 1, 32, 0, false, type, type}).Check(GetParam());
    QuantizedRun({3, 64, 6, 32, 1, false, type, type, 0}).Check(GetParam());
    QuantizedRun({3, 64, 33, 32, 3, true, type, type, 1}).Check(GetParam());
    QuantizedRun({3, 64, 90, 32, 3, true, type, type, 3}).Check(GetParam());
  }
}

TEST_P(QuantizedWeights, TransposedRowsAndMixedTypes) {
  for (const int64_t half : {0, 32}) {
    QuantizedRun({5, 64, 96, half, 3, true, MemoryType::kBF16, MemoryType::kF32, 1, true})
        .Check(GetParam());
    QuantizedRun({5, 64, 96, half, 3, true, MemoryType::kF32, MemoryType::kF16, 2, true})
        .Check(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, QuantizedWeights, testing::ValuesIn(TestedLevels()),
                         [](const auto& level) {
                           std::string name = LevelName(level.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(QuantizedWeightsBytes, CountsWeightsOnce) {
  const QuantizedRun eight({1, 64, 128});
  const QuantizedRun four({1, 64, 128, 32, 4, true, MemoryType::kBF16, MemoryType::kBF16, 2});
  const auto bytes = [](const QuantizedRun& run) {
    return CompiledContraction(
               IsaLevel::kV2,
               [&](ContractionEmitter& emitter) { return emitter.EmitQuantizedGemm(run.spec()); })
        .kernels()
        .launches[0]
        .bytes;
  };
  EXPECT_EQ(bytes(eight), 64 * 128 + 128 * 4 + 64 * 4);
  EXPECT_EQ(bytes(four), 64 * 128 / 2 + 2 * 4 * 64 * 2 + 128 * 2 + 64 * 4);
}

TEST(QuantizedWeightsCheck, RefusesWhatDoesNotFit) {
  const auto emit = [](QuantizedGemmSpec spec) {
    KernelModule module(TargetInfoFor(IsaLevel::kV2));
    ContractionEmitter emitter(module);
    return std::string(emitter.EmitQuantizedGemm(spec).status().message());
  };
  const QuantizedRun run({1, 64, 128, 32, 4});
  QuantizedGemmSpec spec = run.spec();
  spec.group = 24;
  EXPECT_EQ(emit(spec), "test: 128 inner elements in groups of 24");
  spec = run.spec();
  spec.n = 80;
  EXPECT_EQ(emit(spec), "test: 80 columns in blocks of 64");
  spec = run.spec();
  spec.x.type = MemoryType::kI8;
  EXPECT_EQ(emit(spec), "test: operands beside the weights must be f32, bf16 or f16");
}

}  // namespace
}  // namespace hpu::graph_compiler
