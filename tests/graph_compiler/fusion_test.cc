// Checks which kernels a graph becomes, and that they compute what the nodes describe.
#include "graph_compiler/fusion/fusion_state.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class FusionTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, FusionTest, testing::ValuesIn(GraphIsaLevels()));

TEST_P(FusionTest, ElementwiseChainIsOneKernelWithoutWorkspace) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({37, 5});
  const uint32_t y = b.Persistent({37, 1});
  const uint32_t out = b.Persistent({37, 5});
  const uint32_t sum = b.Temporary({37, 5});
  const uint32_t squashed = b.Temporary({37, 5});
  b.Node("add_fwd_f32", {x, y}, {sum});
  b.Node("tanh_fwd_f32", {sum}, {squashed});
  b.Node("mult_fwd_f32", {squashed, x}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(37 * 5);
  const auto ys = RandomFloats(37, 2);
  run.Set(x, xs);
  run.Set(y, ys);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.workspace_bytes, 0u);
  std::vector<float> wanted;
  for (size_t i = 0; i < xs.size(); ++i) wanted.push_back(std::tanh(xs[i] + ys[i % 37]) * xs[i]);
  ExpectNear(run.Get<float>(out), wanted, 1e-6);
}

// A product's bf16 result is stored as bf16, although all of its readers calculate in f32.
TEST_P(FusionTest, AProductIsStoredAsNarrowAsItIs) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({16, 256}, syn_type_bf16);
  const uint32_t w = b.Persistent({480, 16}, syn_type_bf16);
  const uint32_t narrow = b.Temporary({480, 256}, syn_type_bf16);
  const uint32_t wide = b.Temporary({480, 256});
  const uint32_t sum = b.Temporary({480, 1});
  const uint32_t out = b.Persistent({480, 256});
  b.Node("gemm", {x, w}, {narrow}, synGEMMParams{false, false});
  b.Node("cast_bf16_to_f32", {narrow}, {wide});
  b.Node("reduce_sum_multi_dim_fwd_f32", {wide}, {sum}, ns_Reduction_ParamsV2{2, 1});
  b.Node("mult_fwd_f32", {wide, sum}, {out});
  GraphRun run(b.graph);
  // The values are -1, 0, 1 and 2, so sums of 16 products are bf16 numbers.
  constexpr uint16_t kBits[] = {0xBF80, 0, 0x3F80, 0x4000};
  std::vector<uint16_t> xs, ws;
  for (size_t i = 0; i < 256 * 16; ++i) xs.push_back(kBits[i * 7 / 3 % 4]);
  for (size_t i = 0; i < 16 * 480; ++i) ws.push_back(kBits[i * 5 / 3 % 4]);
  run.Set(x, xs);
  run.Set(w, ws);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_GE(run.recipe.workspace_bytes, 480u * 256 * 2);
  EXPECT_LT(run.recipe.workspace_bytes, 480u * 256 * 4);
  const auto number = [](size_t step) { return static_cast<float>(step % 4) - 1; };
  std::vector<float> wanted(256 * 480);
  for (size_t n = 0; n < 480; ++n) {
    float total = 0;
    for (size_t m = 0; m < 256; ++m) {
      float& product = wanted[m * 480 + n];
      for (size_t k = 0; k < 16; ++k) {
        product += number((m * 16 + k) * 7 / 3) * number((k * 480 + n) * 5 / 3);
      }
      total += product;
    }
    for (size_t m = 0; m < 256; ++m) wanted[m * 480 + n] *= total;
  }
  ExpectNear(run.Get<float>(out), wanted, 0);
}

TEST_P(FusionTest, KernelsNameTheirNodesAndCountTheirWork) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({37, 5});
  const uint32_t sum = b.Temporary({37, 5});
  const uint32_t row = b.Persistent({1, 5});
  b.Node("neg_fwd_f32", {x}, {sum});
  b.Node("reduce_sum_fwd_f32", {sum}, {row}, ns_Reduction_Params{0});
  GraphRun run(b.graph);
  run.Set(x, RandomFloats(37 * 5));
  ASSERT_TRUE(run.Run(GetParam()).ok());
  ASSERT_EQ(run.recipe.kernels.size(), 1u);
  const KernelLaunch& kernel = run.recipe.kernels[0];
  EXPECT_EQ(kernel.name, "neg_fwd_f320+reduce_sum_fwd_f321");
  EXPECT_EQ(kernel.engine, Engine::kTpc);
  EXPECT_EQ(kernel.flops, 2u * 37 * 5);  // a negation and an addition each
  EXPECT_EQ(kernel.bytes, 4u * (37 * 5 + 5));
}

TEST(NodeNamesTest, EachNodeOnceAndNotForEver) {
  EXPECT_EQ(JoinNodeNames("", "a"), "a");
  EXPECT_EQ(JoinNodeNames("a+b", "b+c"), "a+b+c");
  EXPECT_EQ(JoinNodeNames("ab", "a+b"), "ab+a+b");
  std::string names;
  for (int i = 0; i < 200; ++i) names = JoinNodeNames(names, "node" + std::to_string(i));
  EXPECT_LE(names.size(), 404u);
  EXPECT_TRUE(names.ends_with("+...")) << names;
}

TEST_P(FusionTest, GemmTakesBiasGeluAndResidual) {
  const uint64_t m = 10, k = 24, n = 40;
  GraphBuilder b;
  const uint32_t x = b.Persistent({k, m});
  const uint32_t w = b.Persistent({n, k});
  const uint32_t bias = b.Persistent({n});
  const uint32_t residual = b.Persistent({n, m});
  const uint32_t out = b.Persistent({n, m});
  const uint32_t product = b.Temporary({n, m});
  const uint32_t biased = b.Temporary({n, m});
  const uint32_t active = b.Temporary({n, m});
  b.Node("gemm", {x, w}, {product}, synGEMMParams{0, 0});
  b.Node("add_fwd_f32", {product, bias}, {biased});
  b.Node("gelu_fwd_f32", {biased}, {active, b.Temporary({n, m})}, ns_GeluKernel_Params{0});
  b.Node("add_fwd_f32", {active, residual}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(k * m);
  const auto ws = RandomFloats(n * k, 2);
  const auto bs = RandomFloats(n, 3);
  const auto rs = RandomFloats(n * m, 4);
  run.Set(x, xs);
  run.Set(w, ws);
  run.Set(bias, bs);
  run.Set(residual, rs);
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  std::vector<float> wanted(n * m);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double sum = bs[j];
      for (size_t l = 0; l < k; ++l) sum += double(xs[i * k + l]) * ws[l * n + j];
      wanted[i * n + j] =
          static_cast<float>(sum * 0.5 * (1 + std::erf(sum / std::sqrt(2.0))) + rs[i * n + j]);
    }
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

TEST_P(FusionTest, TransposesAndReshapesCostNothing) {
  // (B, S, H*D) -> heads -> transposed -> scaled -> back is one elementwise kernel.
  GraphBuilder b;
  const uint32_t x = b.Persistent({12, 5, 2});
  const uint32_t heads = b.Temporary({4, 3, 5, 2});
  const uint32_t turned = b.Temporary({4, 5, 3, 2});
  const uint32_t scaled = b.Temporary({4, 5, 3, 2});
  const uint32_t back = b.Temporary({4, 3, 5, 2});
  const uint32_t flat = b.Persistent({12, 5, 2});
  b.Node("reshape", {x}, {heads});
  synTransposeParams swap{{0, 2, 1, 3, 0}, 4};
  b.Node("transpose", {heads}, {turned}, swap);
  b.Node("mult_fwd_f32", {turned, turned}, {scaled});
  b.Node("transpose", {scaled}, {back}, swap);
  b.Node("reshape", {back}, {flat});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(120);
  run.Set(x, xs);
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.workspace_bytes, 0u);
  std::vector<float> wanted;
  for (const float v : xs) wanted.push_back(v * v);
  ExpectNear(run.Get<float>(flat), wanted, 0);
}

// The transposition moves blocks; a loop that also narrows would write one element of a cache line
// at a time.
TEST_P(FusionTest, ATranspositionOfWhatAKernelStoresIsAKernel) {
  constexpr uint64_t kChannels = 20, kPositions = 40, kImages = 2;
  GraphBuilder b;
  const uint32_t x = b.Persistent({kChannels, kPositions, kImages});
  const uint32_t narrow = b.Persistent({kChannels, kPositions, kImages}, syn_type_bf16);
  const uint32_t turned = b.Persistent({kPositions, kChannels, kImages}, syn_type_bf16);
  b.Node("cast_f32_to_bf16", {x}, {narrow});
  b.Node("transpose", {narrow}, {turned}, synTransposeParams{{1, 0, 2, 0, 0}, 3});
  GraphRun run(b.graph);
  run.Set(x, RandomFloats(kChannels * kPositions * kImages));
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(run.recipe.kernels.size(), 2u);
  EXPECT_EQ(run.recipe.kernels[1].tasks, kImages);
  const auto narrowed = run.Get<uint16_t>(narrow), result = run.Get<uint16_t>(turned);
  for (size_t i = 0; i < narrowed.size(); ++i) {
    const size_t image = i / (kChannels * kPositions), place = i % (kChannels * kPositions);
    const size_t position = place / kChannels, channel = place % kChannels;
    ASSERT_EQ(result[(image * kChannels + channel) * kPositions + position], narrowed[i]);
  }
}

TEST_P(FusionTest, UnsignedIntegersInsideAKernelKeepTheirLowBits) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({4}, syn_type_uint32);
  const uint32_t square = b.Temporary({4}, syn_type_uint32);
  const uint32_t out = b.Persistent({4});
  b.Node("mult_fwd_u32", {x, x}, {square});
  b.Node("cast_u32_to_f32", {square}, {out});
  GraphRun run(b.graph);
  run.Set(x, std::vector<uint32_t>{70000, 65536, 3, 4000000000});
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  ExpectNear(run.Get<float>(out), {605032704.0F, 0, 9, 1983905792.0F}, 0);
}

}  // namespace
}  // namespace hpu::graph_compiler
