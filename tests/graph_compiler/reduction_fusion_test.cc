// Checks what reductions are fused with, and that the kernels compute what the nodes describe.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class ReductionFusionTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, ReductionFusionTest, testing::ValuesIn(GraphIsaLevels()));

std::vector<float> Softmax(const std::vector<float>& x, size_t n) {
  std::vector<float> y(x.size());
  for (size_t row = 0; row < x.size() / n; ++row) {
    double maximum = -1e30;
    double sum = 0;
    for (size_t i = 0; i < n; ++i) maximum = std::max<double>(maximum, x[row * n + i]);
    for (size_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i] - maximum);
    for (size_t i = 0; i < n; ++i) {
      y[row * n + i] = static_cast<float>(std::exp(x[row * n + i] - maximum) / sum);
    }
  }
  return y;
}

// Lanes walk the 32 channels. A factor per group of four, computed from a reduction over the
// pixels, is neither computed again for every pixel nor does it cut the rows into pieces of four.
TEST_P(ReductionFusionTest, AFactorPerGroupOfChannelsIsMadeOnce) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({32, 50});
  const uint32_t out = b.Persistent({32, 50});
  const uint32_t sum = b.Temporary({32, 1});
  const uint32_t grouped = b.Temporary({4, 8});
  const uint32_t total = b.Temporary({1, 8});
  const uint32_t squashed = b.Temporary({1, 8});
  const uint32_t factor = b.Temporary({1, 8});
  const uint32_t wide = b.Temporary({4, 8});
  const uint32_t flat = b.Temporary({32, 1});
  b.Node("reduce_sum_multi_dim_fwd_f32", {x}, {sum}, ns_Reduction_ParamsV2{2, 1});
  b.Node("reshape", {sum}, {grouped});
  b.Node("reduce_sum_multi_dim_fwd_f32", {grouped}, {total}, ns_Reduction_ParamsV2{1, 1});
  b.Node("tanh_fwd_f32", {total}, {squashed});
  b.Node("exp_fwd_f32", {squashed}, {factor});
  b.Node("broadcast", {factor}, {wide});
  b.Node("reshape", {wide}, {flat});
  b.Node("mult_fwd_f32", {x, flat}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(32 * 50);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  const KernelLaunch& last = run.recipe.kernels.back();
  EXPECT_EQ(last.tasks, 50u);
  EXPECT_EQ(last.name, "mult_fwd_f327");
  std::vector<float> wanted(xs.size());
  for (size_t g = 0; g < 8; ++g) {
    double group = 0;
    for (size_t i = 0; i < 200; ++i) group += xs[i / 4 * 32 + g * 4 + i % 4];
    for (size_t i = 0; i < 200; ++i) {
      const size_t at = i / 4 * 32 + g * 4 + i % 4;
      wanted[at] = static_cast<float>(xs[at] * std::exp(std::tanh(group)));
    }
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

// This once looped for ever: after 5 of 7 columns no whole dimension fits any more.
TEST_P(ReductionFusionTest, ReductionBesideDimensionsThatDoNotDivideItsOwn) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({2, 7, 1});
  const uint32_t y = b.Persistent({5, 7, 5});
  const uint32_t out = b.Persistent({5, 7, 5});
  const uint32_t least = b.Temporary({1, 1, 1});
  const ns_Reduction_ParamsV2 all{7, 1};
  b.Node("reduce_min_multi_dim_fwd_f32", {x}, {least}, all);
  b.Node("add_fwd_f32", {least, y}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(14);
  const auto ys = RandomFloats(175, 2);
  run.Set(x, xs);
  run.Set(y, ys);
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  std::vector<float> wanted;
  for (const float value : ys) wanted.push_back(*std::min_element(xs.begin(), xs.end()) + value);
  ExpectNear(run.Get<float>(out), wanted, 1e-6);
}

TEST_P(ReductionFusionTest, SoftmaxIsOneKernel) {
  for (const uint64_t n : {1, 7, 16, 33, 128}) {
    GraphBuilder b;
    const uint32_t x = b.Persistent({n, 3, 2});
    const uint32_t out = b.Persistent({n, 3, 2});
    b.Node("softmax_fwd_f32", {x}, {out}, ns_Softmax_Params{0});
    GraphRun run(b.graph);
    const auto xs = RandomFloats(n * 6, 3, -9, 9);
    run.Set(x, xs);
    ASSERT_TRUE(run.Run(GetParam()).ok());
    EXPECT_EQ(run.recipe.kernels.size(), 1u);
    EXPECT_EQ(run.recipe.workspace_bytes, 0u);
    ExpectNear(run.Get<float>(out), Softmax(xs, n), 2e-6);
  }
}

TEST_P(ReductionFusionTest, ManyReductionsOfTheSameRowsAreOneKernel) {
  constexpr uint64_t kColumns = 20, kRows = 7;
  GraphBuilder b;
  const uint32_t input = b.Persistent({kColumns, kRows});
  const uint32_t out = b.Persistent({kColumns, kRows});
  constexpr int kBlocks = 20;
  uint32_t x = input;
  for (int block = 0; block < kBlocks; ++block) {
    const uint32_t mean = b.Temporary({1, kRows});
    const uint32_t next = block + 1 == kBlocks ? out : b.Temporary({kColumns, kRows});
    const uint32_t squashed = b.Temporary({kColumns, kRows});
    b.Node("reduce_mean_fwd_f32", {x}, {mean}, ns_Reduction_Params{0});
    b.Node("sub_fwd_f32", {x, mean}, {squashed});
    b.Node("sin_fwd_f32", {squashed}, {next});
    x = next;
  }
  GraphRun run(b.graph);
  auto wanted = RandomFloats(kColumns * kRows);
  run.Set(input, wanted);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.workspace_bytes, 0u);
  for (int block = 0; block < kBlocks; ++block) {
    for (uint64_t row = 0; row < kRows; ++row) {
      double sum = 0;
      for (uint64_t i = 0; i < kColumns; ++i) sum += wanted[row * kColumns + i];
      for (uint64_t i = 0; i < kColumns; ++i) {
        float& value = wanted[row * kColumns + i];
        value = static_cast<float>(std::sin(value - sum / kColumns));
      }
    }
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

TEST_P(ReductionFusionTest, ResidualAndLayerNormAreOneKernel) {
  for (const uint64_t n : {5, 64, 70}) {
    GraphBuilder b;
    const uint32_t x = b.Persistent({n, 9});
    const uint32_t residual = b.Persistent({n, 9});
    const uint32_t weight = b.Persistent({n});
    const uint32_t bias = b.Persistent({n});
    const uint32_t out = b.Persistent({n, 9});
    const uint32_t sum = b.Temporary({n, 9});
    b.Node("add_fwd_f32", {x, residual}, {sum});
    b.Node("layer_norm_fwd_f32", {sum, bias, weight},
           {out, b.Temporary({1, 9}), b.Temporary({1, 9})}, ns_LayerNormKernel_Params{1, 1e-5f});
    GraphRun run(b.graph);
    const auto xs = RandomFloats(n * 9);
    const auto rs = RandomFloats(n * 9, 2);
    const auto ws = RandomFloats(n, 3);
    const auto bs = RandomFloats(n, 4);
    run.Set(x, xs);
    run.Set(residual, rs);
    run.Set(weight, ws);
    run.Set(bias, bs);
    const absl::Status status = run.Run(GetParam());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(run.recipe.kernels.size(), 1u);
    EXPECT_EQ(run.recipe.workspace_bytes, 0u);
    std::vector<float> wanted(xs.size());
    for (size_t row = 0; row < 9; ++row) {
      double mean = 0;
      double variance = 0;
      for (size_t i = 0; i < n; ++i) mean += (xs[row * n + i] + rs[row * n + i]) / double(n);
      for (size_t i = 0; i < n; ++i) {
        const double d = xs[row * n + i] + rs[row * n + i] - mean;
        variance += d * d / double(n);
      }
      for (size_t i = 0; i < n; ++i) {
        const double d = xs[row * n + i] + rs[row * n + i] - mean;
        wanted[row * n + i] = static_cast<float>(d / std::sqrt(variance + 1e-5) * ws[i] + bs[i]);
      }
    }
    ExpectNear(run.Get<float>(out), wanted, 1e-5);
  }
}

// A gradient is stored for one sum, so its product with x, which only the other sum reads, is
// computed there: there is one value in the workspace, not two.
TEST_P(ReductionFusionTest, WhatOnlyReductionsReadIsMadeInThem) {
  const uint64_t m = 30, k = 24, n = 40;
  GraphBuilder b;
  const uint32_t dy = b.Persistent({k, m});
  const uint32_t w = b.Persistent({n, k});
  const uint32_t x = b.Persistent({n, m});
  const uint32_t sum = b.Persistent({n, 1});
  const uint32_t weighted = b.Persistent({n, 1});
  const uint32_t gradient = b.Temporary({n, m});
  const uint32_t product = b.Temporary({n, m});
  b.Node("gemm", {dy, w}, {gradient}, synGEMMParams{0, 0});
  b.Node("mult_fwd_f32", {gradient, x}, {product});
  b.Node("reduce_sum_multi_dim_fwd_f32", {gradient}, {sum}, ns_Reduction_ParamsV2{2, 1});
  b.Node("reduce_sum_multi_dim_fwd_f32", {product}, {weighted}, ns_Reduction_ParamsV2{2, 1});
  GraphRun run(b.graph);
  const auto dys = RandomFloats(k * m);
  const auto ws = RandomFloats(n * k, 2);
  const auto xs = RandomFloats(n * m, 3);
  run.Set(dy, dys);
  run.Set(w, ws);
  run.Set(x, xs);
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.recipe.kernels.size(), 2u);
  EXPECT_LT(run.recipe.workspace_bytes, 2 * n * m * sizeof(float));
  std::vector<float> sums(n), weighted_sums(n);
  for (size_t j = 0; j < n; ++j) {
    double total = 0, weighted_total = 0;
    for (size_t i = 0; i < m; ++i) {
      double g = 0;
      for (size_t l = 0; l < k; ++l) g += double(dys[i * k + l]) * ws[l * n + j];
      total += g;
      weighted_total += g * xs[i * n + j];
    }
    sums[j] = static_cast<float>(total);
    weighted_sums[j] = static_cast<float>(weighted_total);
  }
  ExpectNear(run.Get<float>(sum), sums, 1e-5);
  ExpectNear(run.Get<float>(weighted), weighted_sums, 1e-5);
}

}  // namespace
}  // namespace hpu::graph_compiler
