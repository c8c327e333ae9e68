// Numbers that the compiler knows become code, and values that are the same for all rows are
// computed once.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class KnownNumbersTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, KnownNumbersTest, testing::ValuesIn(GraphIsaLevels()));

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void ExpectBits(const std::vector<float>& values, const std::vector<float>& wanted) {
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << i << ": " << values[i];
    } else {
      EXPECT_EQ(values[i], wanted[i]) << i;
    }
  }
}

TEST_P(KnownNumbersTest, LimitsAreNoOperands) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({37});
  const uint32_t low = b.Constant<float>({1}, syn_type_float, {-0.25F});
  const uint32_t high = b.Constant<uint16_t>({1}, syn_type_bf16, {0x3f00});  // 0.5
  const uint32_t wide = b.Temporary({1});
  const uint32_t limited = b.Temporary({37});
  const uint32_t out = b.Persistent({37});
  b.Node("cast_bf16_to_f32", {high}, {wide});
  b.Node("max_fwd_f32", {x, low}, {limited});
  b.Node("min_fwd_f32", {limited, wide}, {out});
  GraphRun run(b.graph);
  auto xs = RandomFloats(37);
  xs[0] = xs[36] = kNan;
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  ASSERT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.kernels[0].operands.size(), 2u);  // x and out
  std::vector<float> wanted;
  for (const float v : xs) wanted.push_back(std::isnan(v) ? v : std::clamp(v, -0.25F, 0.5F));
  ExpectBits(run.Get<float>(out), wanted);
}

// PyTorch's maximum is NaN where either side is.
TEST_P(KnownNumbersTest, ALimitThatIsNoNumber) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({37});
  const uint32_t limit = b.Constant<float>({1}, syn_type_float, {kNan});
  const uint32_t out = b.Persistent({37});
  const uint32_t least = b.Persistent({37});
  b.Node("max_fwd_f32", {x, limit}, {out});
  b.Node("min_fwd_f32", {limit, x}, {least});
  GraphRun run(b.graph);
  run.Set(x, RandomFloats(37));
  ASSERT_TRUE(run.Run(GetParam()).ok());
  ExpectBits(run.Get<float>(out), std::vector<float>(37, kNan));
  ExpectBits(run.Get<float>(least), std::vector<float>(37, kNan));
}

// A constant whose elements differ is read where it lies.
TEST_P(KnownNumbersTest, AVectorStaysAnOperand) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({3, 5});
  const uint32_t row = b.Constant<float>({3}, syn_type_float, {1, 2, 3});
  const uint32_t out = b.Persistent({3, 5});
  b.Node("mult_fwd_f32", {x, row}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(15);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels[0].operands.size(), 3u);
  std::vector<float> wanted;
  for (size_t i = 0; i < 15; ++i) wanted.push_back(xs[i] * static_cast<float>(i % 3 + 1));
  ExpectNear(run.Get<float>(out), wanted, 0);
}

// A product, followed by a norm whose factor and shift are values per column, as in a convolution.
struct NormGraph {
  explicit NormGraph(uint64_t m) : rows(m) {
    b.Node("gemm", {x = b.Persistent({k, m}), w = b.Persistent({n, k})},
           {product = b.Temporary({n, m})}, synGEMMParams{0, 0});
    const uint32_t scaled = b.Temporary({n, m}), moved = b.Temporary({n}), shift = b.Temporary({n});
    b.Node("mult_fwd_f32", {mean = b.Persistent({n}), factor = b.Persistent({n})}, {moved});
    b.Node("sub_fwd_f32", {bias = b.Persistent({n}), moved}, {shift});
    b.Node("mult_fwd_f32", {product, factor}, {scaled});
    b.Node("add_fwd_f32", {scaled, shift}, {out = b.Persistent({n, m})});
  }

  void Check(IsaLevel isa, size_t kernels) {
    SCOPED_TRACE(rows);
    GraphRun run(b.graph);
    const auto xs = RandomFloats(rows * k), ws = RandomFloats(k * n, 2), ms = RandomFloats(n, 3);
    const auto fs = RandomFloats(n, 4), bs = RandomFloats(n, 5);
    run.Set(x, xs);
    run.Set(w, ws);
    run.Set(mean, ms);
    run.Set(factor, fs);
    run.Set(bias, bs);
    ASSERT_TRUE(run.Run(isa).ok());
    EXPECT_EQ(run.recipe.kernels.size(), kernels);
    std::vector<float> wanted(rows * n);
    for (size_t i = 0; i < rows * n; ++i) {
      double sum = 0;
      for (size_t l = 0; l < k; ++l) sum += double{xs[i / n * k + l]} * ws[l * n + i % n];
      wanted[i] = static_cast<float>(sum * fs[i % n] + bs[i % n] - ms[i % n] * fs[i % n]);
    }
    ExpectNear(run.Get<float>(out), wanted, 1e-5);
  }

  static constexpr uint64_t k = 8, n = 40;
  uint64_t rows;
  GraphBuilder b;
  uint32_t x, w, product, mean, factor, bias, out;
};

TEST_P(KnownNumbersTest, AShiftPerColumnIsMadeOnceForManyRows) {
  NormGraph(200).Check(GetParam(), 2);
  NormGraph(3).Check(GetParam(), 1);  // one more kernel would cost more
}

}  // namespace
}  // namespace hpu::graph_compiler
