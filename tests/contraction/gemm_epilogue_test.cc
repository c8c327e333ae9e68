// Tests the epilogue in the kernel of a product, and what products share, count and refuse.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

// A product with the operands 0 A, 1 B, 2 bias, 3 residual, 4 out.
class EpilogueTest : public testing::TestWithParam<std::pair<int64_t, int64_t>> {
 protected:
  static constexpr int64_t kM = 45, kK = 70;
  static constexpr int64_t kResidualPitch = 400;

  uint32_t Op(Opcode code, std::vector<uint32_t> args, double imm = 0) {
    body_.ops.push_back(MakeOp(code, std::move(args), imm));
    return static_cast<uint32_t>(body_.ops.size() - 1);
  }
  uint32_t Load(uint32_t operand, std::vector<int64_t> strides, int64_t offset = 0) {
    BodyOp op = MakeOp(Opcode::kLoad);
    op.access.operand = operand;
    op.access.strides = std::move(strides);
    op.access.offset = offset;
    body_.ops.push_back(op);
    return static_cast<uint32_t>(body_.ops.size() - 1);
  }
  // Stores `value`, runs, and compares with expected(sum, row, col).
  void Check(int64_t m, int64_t n, uint32_t value, int64_t out_offset,
             const std::function<double(double, int64_t, int64_t)>& expected) {
    body_.stores[0].value = value;
    body_.stores[0].access.offset = out_offset;
    GemmSpec spec;
    spec.m = m;
    spec.n = n;
    spec.k = kK;
    SetDense(spec, kK);
    spec.b.buffer_bytes = static_cast<uint64_t>(4 * n * kK);
    spec.epilogue = body_;
    spec.epilogue_operands = {Persistent(4), Persistent(2), Persistent(3)};
    for (const IsaLevel isa : TestedLevels()) {
      SCOPED_TRACE(LevelName(isa) + " m" + std::to_string(m) + " n" + std::to_string(n));
      CompiledContraction compiled(
          isa, [&](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); });
      TestBuffer a(MemoryType::kF32, m * kK), b(MemoryType::kF32, n * kK);
      bias_ = std::make_unique<TestBuffer>(MemoryType::kF32, n);
      residual_ = std::make_unique<TestBuffer>(MemoryType::kF32, m * kResidualPitch);
      TestBuffer out(MemoryType::kF32, m * n + out_offset);
      a.FillRandom(1);
      b.FillRandom(2);
      bias_->FillRandom(3);
      residual_->FillRandom(4);
      out.FillRandom(5);
      const TestBuffer before = out;
      before_ = &before;
      compiled.Run({&a, &b, bias_.get(), residual_.get(), &out}, 3);
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t col = 0; col < n; ++col) {
          double sum = 0;
          for (int64_t k = 0; k < kK; ++k) {
            sum += static_cast<double>(a.Get(row * kK + k)) * b.Get(col * kK + k);
          }
          const double want = expected(sum, row, col);
          ASSERT_NEAR(out.Get(out_offset + row * n + col), want, 3e-6 * (1 + std::fabs(want)))
              << row << " " << col;
        }
      }
    }
  }

  Body body_ = StoreBody(MemoryType::kF32, {});
  std::unique_ptr<TestBuffer> bias_, residual_;
  const TestBuffer* before_ = nullptr;
};

TEST_P(EpilogueTest, BiasGelu) {
  const auto [m, n] = GetParam();
  body_.stores[0].access.strides = {n, 1};
  const uint32_t x = Op(Opcode::kAdd, {0, Load(1, {0, 1})});
  const uint32_t scaled = Op(Opcode::kMul, {x, Op(Opcode::kConstF32, {}, M_SQRT1_2)});
  const uint32_t erf = Op(Opcode::kErf, {scaled});
  const uint32_t half = Op(Opcode::kMul, {x, Op(Opcode::kConstF32, {}, 0.5)});
  Check(m, n, Op(Opcode::kFma, {half, erf, half}), 0, [&](double sum, int64_t, int64_t col) {
    const double value = sum + bias_->Get(col);
    return 0.5 * value * (1 + std::erf(value * M_SQRT1_2));
  });
}

TEST_P(EpilogueTest, StridedResidual) {
  const auto [m, n] = GetParam();
  body_.stores[0].access.strides = {n, 1};
  const uint32_t residual = Load(2, {kResidualPitch, 1}, 3);
  Check(m, n, Op(Opcode::kAdd, {0, residual}), 2, [&](double sum, int64_t row, int64_t col) {
    return sum + residual_->Get(row * kResidualPitch + col + 3);
  });
}

// The output may be the residual itself, element for element.
TEST_P(EpilogueTest, InPlaceResidual) {
  const auto [m, n] = GetParam();
  body_.stores[0].access.strides = {n, 1};
  Check(m, n, Op(Opcode::kAdd, {0, Load(0, {n, 1}, 7)}), 7,
        [&, width = n](double sum, int64_t row, int64_t col) {
          return sum + before_->Get(7 + row * width + col);
        });
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, EpilogueTest,
    testing::Values(std::pair<int64_t, int64_t>{45, 64}, std::pair<int64_t, int64_t>{45, 77},
                    std::pair<int64_t, int64_t>{45, 3}, std::pair<int64_t, int64_t>{45, 1},
                    std::pair<int64_t, int64_t>{1, 64}, std::pair<int64_t, int64_t>{3, 77}));

GemmSpec DenseSpec(int64_t m, int64_t n, int64_t k) {
  GemmSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  SetDense(spec, k);
  spec.epilogue = StoreBody(MemoryType::kF32, {n, 1});
  spec.epilogue_operands = {Persistent(2)};
  return spec;
}

TEST(KernelSharingTest, EqualProductsShareCode) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  ContractionEmitter emitter(module);
  GemmSpec spec = DenseSpec(64, 64, 64);
  const EmittedKernels first = *emitter.EmitGemm(spec);
  const int kernels = module.num_kernels();
  spec.a.offset = 128;
  spec.b.offset = 256;
  spec.epilogue.stores[0].access.offset = 64;
  spec.b.buffer = Persistent(7);
  const EmittedKernels second = *emitter.EmitGemm(spec);
  EXPECT_EQ(module.num_kernels(), kernels);
  EXPECT_EQ(first.launches[0].entry, second.launches[0].entry);
  EXPECT_EQ(second.launches[0].operands[0].offset, 512u);
  EXPECT_EQ(second.packed[0].source.index, 7u);
  EXPECT_EQ(second.packed[0].source.offset, 1024u);
  EXPECT_EQ(first.packed[0].format, second.packed[0].format);
  spec.m = 65;
  const EmittedKernels third = *emitter.EmitGemm(spec);
  EXPECT_EQ(module.num_kernels(), kernels + 1);  // another product, but the same packing
  EXPECT_EQ(third.packed[0].format, first.packed[0].format);
}

TEST(KernelSharingTest, OneRowNeedsNoPackedCopy) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  ContractionEmitter emitter(module);
  for (const bool transposed : {false, true}) {
    GemmSpec spec = DenseSpec(1, 512, 512);
    if (!transposed) std::swap(spec.b.row_stride, spec.b.col_stride);
    EXPECT_TRUE(emitter.EmitGemm(spec)->packed.empty());
  }
  EXPECT_EQ(emitter.EmitGemm(DenseSpec(32, 512, 512))->packed.size(), 1u);
}

// With AVX512_BF16, rows of bf16 are multiplied in pairs without a copy; without it, A is widened
// first.
TEST(KernelSharingTest, BF16PairsNeedNoStaging) {
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    KernelModule module(TargetInfoFor(isa));
    ContractionEmitter emitter(module);
    GemmSpec spec = DenseSpec(64, 64, 64);
    spec.a.type = spec.b.type = MemoryType::kBF16;
    const EmittedKernels kernels = *emitter.EmitGemm(spec);
    EXPECT_EQ(kernels.launches.size(), isa >= IsaLevel::kV4Bf16 ? 1u : 2u);
    EXPECT_EQ(kernels.packed[0].packed_bytes, 64u * 64 * 2);
    EXPECT_TRUE(module.Finish(SizesAs::kSymbols).ok());
  }
}

// An operand that does not lie in pairs is staged in bf16: it takes half the bytes of f32, and the
// kernel uses the instructions for pairs.
TEST(KernelSharingTest, ChangingBF16IsStagedInPairs) {
  constexpr uint64_t kPanels = 64 * 64 * 2, kRows = 64 * (64 + 32) * 2;
  for (const IsaLevel isa : {IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    KernelModule module(TargetInfoFor(isa));
    ContractionEmitter emitter(module);
    GemmSpec spec = DenseSpec(64, 64, 64);
    spec.a.type = spec.b.type = MemoryType::kBF16;
    spec.b.stable = false;
    const bool pairs = isa >= IsaLevel::kV4Bf16;
    const EmittedKernels rows = *emitter.EmitGemm(spec);
    EXPECT_TRUE(rows.packed.empty());
    EXPECT_EQ(rows.launches.size(), 2u);
    EXPECT_EQ(rows.workspace_bytes, pairs ? kPanels : 64u * (64 + 16) * 4);
    std::swap(spec.a.row_stride, spec.a.col_stride);
    const EmittedKernels columns = *emitter.EmitGemm(spec);
    EXPECT_EQ(columns.launches.size(), pairs ? 3u : 2u);
    if (pairs) {
      EXPECT_EQ(columns.workspace_bytes, kPanels + kRows);
    }
    EXPECT_TRUE(module.Finish(SizesAs::kSymbols).ok());
  }
}

TEST(GemmStatisticsTest, CountsWork) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  ContractionEmitter emitter(module);
  const EmittedKernels kernels = *emitter.EmitGemm(DenseSpec(100, 64, 32));
  ASSERT_EQ(kernels.launches.size(), 1u);
  EXPECT_EQ(kernels.launches[0].flops, 2u * 100 * 64 * 32);
  EXPECT_EQ(kernels.launches[0].bytes, 4u * (100 * 32 + 64 * 32 + 100 * 64));
  EXPECT_EQ(kernels.launches[0].engine, Engine::kMme);
  EXPECT_EQ(kernels.packed[0].source_bytes, 4u * 64 * 32);
}

TEST(GemmErrorTest, NamesNodeAndReason) {
  KernelModule module(TargetInfoFor(IsaLevel::kV3));
  ContractionEmitter emitter(module);
  GemmSpec spec = DenseSpec(4, 4, 4);
  spec.name = "bmm3";
  spec.a.type = MemoryType::kI32;
  EXPECT_EQ(ToText(emitter.EmitGemm(spec).status()),
            "UNIMPLEMENTED: bmm3: gemm operands must be f32, bf16 or f16, or u8 and i8");
  spec.a.type = MemoryType::kF32;
  spec.batch = {2};
  EXPECT_EQ(ToText(emitter.EmitGemm(spec).status()),
            "INVALID_ARGUMENT: bmm3: gemm has 1 batch sizes but 0 and 0 batch strides");
}

}  // namespace
}  // namespace hpu::graph_compiler
