// Products and convolutions of bf16 at level v4-amx give the same results as AVX512_BF16 within
// rounding, and their instructions really are AMX instructions. gemm_test, conv_test and
// gemm_epilogue_test, which run at this level too, compare results with a reference over all
// shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "recipe/isa.h"
#include "tests/contraction/amx_interpreter.h"
#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

bool CanRunAmx() { return TestedLevels().back() == IsaLevel::kV4Amx; }

GemmSpec Product(int64_t m, int64_t n, int64_t k) {
  GemmSpec spec;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a.type = spec.b.type = MemoryType::kBF16;
  SetDense(spec, k);
  spec.b.buffer_bytes = static_cast<uint64_t>(n * k * 2);
  spec.epilogue = StoreBody(MemoryType::kF32, {n, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "test";
  return spec;
}

// Returns the tile products that the level's code runs for one product; results go to `out`.
long ProductsRun(const GemmSpec& spec, IsaLevel isa, TestBuffer& out) {
  TestBuffer a(MemoryType::kBF16, spec.m * spec.k), b(MemoryType::kBF16, spec.n * spec.k);
  a.FillRandom(1);
  b.FillRandom(2);
  CompiledContraction compiled(isa, [&](ContractionEmitter& e) { return e.EmitGemm(spec); });
  const long before = AmxProductsInterpreted();
  compiled.Run({&a, &b, &out});
  return AmxProductsInterpreted() - before;
}

// A k that does not divide is filled up where 32 columns pay for copying A.
int64_t ProductsAlongK(int64_t n, int64_t k) {
  if (k % 2 == 0 && AmxDepth(k / 2) > 0) return k / 2 / AmxDepth(k / 2);
  return n < 32 ? 0 : (k + 31) / 32;
}

TEST(AmxDepthTest, DividesTheRunAndFillsHalfATile) {
  EXPECT_EQ(AmxDepth(384), 16);
  EXPECT_EQ(AmxDepth(24), 12);
  EXPECT_EQ(AmxDepth(14), 14);
  EXPECT_EQ(AmxDepth(8), 8);
  EXPECT_EQ(AmxDepth(4), 0);
  EXPECT_EQ(AmxDepth(37), 0);
  EXPECT_EQ(AmxDepth(0), 0);
}

TEST(AmxDepthTest, FillingUpTakesTheFewestProducts) {
  EXPECT_EQ(AmxDepthFilledUp(394), 16);  // 25 products, 6 pairs of zeros
  EXPECT_EQ(AmxDepthFilledUp(37), 13);   // 3 products, 2 pairs of zeros
  EXPECT_EQ(AmxDepthFilledUp(24), 12);
  EXPECT_EQ(AmxDepthFilledUp(17), 9);
  EXPECT_EQ(AmxDepthFilledUp(7), 0);
}

TEST(AmxRowTilesTest, CoverEveryRow) {
  for (int64_t m = 0; m < 200; ++m) {
    const RowTiles tiles = AmxRowTiles(m);
    EXPECT_EQ(tiles.main_rows * tiles.main_count + tiles.tail_rows * tiles.tail_count, m);
    EXPECT_LE(tiles.main_rows, 32);
    EXPECT_LT(tiles.tail_rows, 32);
  }
}

// The cases have rows of one and two tiles with every kind of remainder, panels of one and two
// vectors, columns beyond the last panel, k in one block and in several, tiles of B that are not
// full, and k that is filled up.
TEST(AmxGemmTest, AgreesWithVectors) {
  if (!CanRunAmx()) GTEST_SKIP() << "needs AVX512_BF16";
  for (const int64_t m : {5, 16, 17, 32, 33, 47, 64, 200}) {
    for (const int64_t n : {3, 16, 33, 64}) {
      for (const int64_t k : {16, 24, 28, 64, 74, 197, 394, 6144}) {
        if (m * k > 300000) continue;
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
        const GemmSpec spec = Product(m, n, k);
        TestBuffer wanted(MemoryType::kF32, m * n), actual(MemoryType::kF32, m * n);
        ProductsRun(spec, IsaLevel::kV4Bf16, wanted);
        const long products = ProductsRun(spec, IsaLevel::kV4Amx, actual);
        if (HostIsaLevel() != IsaLevel::kV4Amx) {
          const int64_t vectors = n > 16 ? (n + 31) / 32 * 2 : 1;
          EXPECT_EQ(products, (m + 15) / 16 * vectors * ProductsAlongK(n, k));
        }
        ASSERT_TRUE(actual.GuardsIntact());
        for (int64_t i = 0; i < m * n; ++i) {
          ASSERT_NEAR(actual.Get(i), wanted.Get(i), 1e-6 * static_cast<double>(k)) << i;
        }
      }
    }
  }
}

TEST(AmxGemmTest, ShortDepthsKeepToVectors) {
  if (!CanRunAmx()) GTEST_SKIP() << "needs AVX512_BF16";
  for (const int64_t k : {2, 13, 14}) {
    TestBuffer out(MemoryType::kF32, 40 * 40);
    EXPECT_EQ(ProductsRun(Product(40, 40, k), IsaLevel::kV4Amx, out), 0) << k;
  }
}

struct ConvShape {
  int64_t channels, height, width, outputs, kernel, stride, pad;
  bool tiles;  // whether AMX takes it
};

// The cases have one and several tiles per output row, two tiles from different rows, a last block
// of fewer rows, input read in place, and widths that no tile of equal pixels covers.
TEST(AmxConvTest, AgreesWithVectors) {
  if (!CanRunAmx()) GTEST_SKIP() << "needs AVX512_BF16";
  const ConvShape shapes[] = {
      {32, 14, 14, 48, 3, 1, 1, true},   {32, 7, 7, 32, 3, 1, 1, true},
      {16, 60, 60, 16, 3, 2, 1, true},   {64, 37, 28, 20, 3, 1, 1, true},
      {64, 9, 12, 33, 3, 1, 0, true},    {32, 30, 16, 40, 1, 2, 0, true},
      {3, 64, 64, 64, 7, 2, 3, true},    {32, 5, 11, 16, 3, 1, 1, true},
      {32, 5, 17, 16, 3, 1, 1, false},   {32, 5, 3, 16, 3, 1, 1, false},
      {128, 100, 96, 16, 3, 1, 1, true},
  };
  for (const ConvShape& shape : shapes) {
    SCOPED_TRACE(std::to_string(shape.channels) + " " + std::to_string(shape.height) + " x " +
                 std::to_string(shape.width) + " kernel " + std::to_string(shape.kernel));
    ConvSpec spec;
    spec.batch = 2;
    spec.in_c = shape.channels;
    spec.in_h = shape.height;
    spec.in_w = shape.width;
    spec.out_c = shape.outputs;
    spec.kernel_h = spec.kernel_w = shape.kernel;
    spec.stride_h = spec.stride_w = shape.stride;
    spec.pad_top = spec.pad_left = shape.pad;
    spec.out_h = (shape.height + 2 * shape.pad - shape.kernel) / shape.stride + 1;
    spec.out_w = (shape.width + 2 * shape.pad - shape.kernel) / shape.stride + 1;
    spec.x = Persistent(0);
    spec.w = Persistent(1);
    spec.x_type = spec.w_type = MemoryType::kBF16;
    const int64_t x_strides[] = {shape.height * shape.width * shape.channels,
                                 shape.width * shape.channels, shape.channels, 1};
    const int64_t taps = shape.kernel * shape.kernel;
    const int64_t w_strides[] = {taps * shape.channels, taps, shape.kernel, 1};
    std::copy_n(x_strides, 4, spec.x_strides);
    std::copy_n(w_strides, 4, spec.w_strides);
    spec.w_stable = true;
    const int64_t row = spec.out_w * shape.outputs;
    spec.epilogue = StoreBody(MemoryType::kF32, {spec.out_h * row, row, shape.outputs, 1});
    spec.epilogue_operands = {Persistent(2)};
    spec.name = "test";
    TestBuffer x(MemoryType::kBF16, 2 * x_strides[0]);
    TestBuffer w(MemoryType::kBF16, shape.outputs * w_strides[0]);
    spec.w_buffer_bytes = w.size_bytes();
    x.FillRandom(1);
    w.FillRandom(2);
    TestBuffer wanted(MemoryType::kF32, 2 * spec.out_h * row), actual = wanted;
    const auto run = [&](IsaLevel isa, TestBuffer& out) {
      CompiledContraction compiled(isa, [&](ContractionEmitter& e) { return e.EmitConv(spec); });
      compiled.Run({&x, &w, &out}, 3);
    };
    run(IsaLevel::kV4Bf16, wanted);
    const long before = AmxProductsInterpreted();
    run(IsaLevel::kV4Amx, actual);
    if (HostIsaLevel() != IsaLevel::kV4Amx) {
      EXPECT_EQ(AmxProductsInterpreted() > before, shape.tiles);
    }
    ASSERT_TRUE(actual.GuardsIntact());
    const double terms = static_cast<double>(w_strides[0]);
    for (int64_t i = 0; i < actual.elements(); ++i) {
      ASSERT_NEAR(actual.Get(i), wanted.Get(i), 1e-6 * terms) << i;
    }
  }
}

// attention_test, which runs at this level too, checks the results.
TEST(AmxAttentionTest, BothProductsAreTiles) {
  if (!CanRunAmx() || HostIsaLevel() == IsaLevel::kV4Amx)
    GTEST_SKIP() << "counts what is interpreted";
  AttentionSpec spec;
  spec.batch = spec.heads = 1;
  spec.m = 64;
  spec.n = 160;
  spec.d = spec.dv = 64;
  spec.type = MemoryType::kBF16;
  for (int64_t* strides : {spec.q_strides, spec.k_strides, spec.v_strides, spec.out_strides}) {
    strides[2] = 64;
    strides[3] = 1;
  }
  spec.q = Persistent(0);
  spec.k = Persistent(1);
  spec.v = Persistent(2);
  spec.out = Persistent(3);
  spec.name = "test";
  TestBuffer q(MemoryType::kBF16, 64 * 64), k(MemoryType::kBF16, 160 * 64), v = k, out = q;
  for (TestBuffer* buffer : {&q, &k, &v}) buffer->FillRandom(1);
  CompiledContraction compiled(IsaLevel::kV4Amx,
                               [&](ContractionEmitter& e) { return e.EmitAttention(spec); });
  const long before = AmxProductsInterpreted();
  compiled.Run({&q, &k, &v, &out, nullptr});
  // There are 16 x 16 results of 32 terms each.
  constexpr long kScores = (160 / 16) * (64 / 16) * (64 / 32);
  constexpr long kOutputs = (64 / 16) * (64 / 16) * (160 / 32);
  EXPECT_EQ(AmxProductsInterpreted() - before, kScores + kOutputs);
}

}  // namespace
}  // namespace hpu::graph_compiler
