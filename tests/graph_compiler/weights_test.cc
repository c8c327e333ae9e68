// Tests weights of products, which are rounded when they are packed, and are packed for one launch
// or for many.
#include <bit>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

std::vector<IsaLevel> Levels() {
  std::vector<IsaLevel> levels;
  for (const IsaLevel level :
       {IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4, IsaLevel::kV4Bf16, IsaLevel::kV4Amx}) {
    if (level <= HostIsaLevel()) levels.push_back(level);
  }
  return levels;
}

class WeightsTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, WeightsTest, testing::ValuesIn(Levels()));

// Returns weights with every kind of number: halfway between two bf16 numbers, denormal, too large
// for bf16.
std::vector<float> OddWeights(size_t count) {
  std::vector<float> values = RandomFloats(count, 3);
  const std::vector<float> odd = {1.00390625f, 1.01171875f, -1.00390625f, 1e-40f,
                                  -3e-39f,     3.4e38f,     0.0f,         -0.0f};
  for (size_t i = 0; i < count; i += 5) values[i] = odd[i / 5 % odd.size()];
  return values;
}

// A product of bf16 whose weights are rounded from f32. `is_kept` says that the rounded weights are
// an output, so that they must be written.
struct Product {
  GraphBuilder b;
  uint32_t x, w, out;

  Product(const Dims& x_sizes, const Dims& w_sizes, const Dims& out_sizes, bool is_kept) {
    x = b.Persistent(x_sizes, syn_type_bf16);
    w = b.Persistent(w_sizes);
    out = b.Persistent(out_sizes);
    rounded_ = is_kept ? b.Persistent(w_sizes, syn_type_bf16) : b.Temporary(w_sizes, syn_type_bf16);
    sum_ = b.Temporary(out_sizes, syn_type_bf16);
    b.Node("cast_f32_to_bf16", {w}, {rounded_});
  }
  template <typename Params>
  void Multiply(const std::string& guid, const Params& params) {
    b.Node(guid, {x, rounded_}, {sum_}, params);
    b.Node("cast_bf16_to_f32", {sum_}, {out});
  }
  Recipe Run(IsaLevel isa, std::vector<float>* result) {
    GraphRun run(b.graph);
    const std::vector<float> wide = RandomFloats(Elements(b.graph.tensors[x].sizes), 2);
    std::vector<uint16_t> narrow;
    for (const float value : wide) {
      narrow.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    }
    run.Set(x, narrow);
    run.Set(w, OddWeights(Elements(b.graph.tensors[w].sizes)));
    EXPECT_TRUE(run.Run(isa, 1).ok());
    *result = run.Get<float>(out);
    return run.recipe;
  }

 private:
  uint32_t rounded_, sum_;
};

// The bits must be the same even where they are not numbers.
void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& wanted,
                    const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::memcmp(&got[i], &wanted[i], sizeof(float)), 0)
        << what << " at " << i << ": " << got[i] << ", " << wanted[i];
  }
}

struct GemmCase {
  uint64_t m, n, k;
  bool transpose_b;
};

TEST_P(WeightsTest, ProductsRoundWeightsAsACopyWould) {
  for (const bool inference : {true, false}) {
    for (const GemmCase& c :
         {GemmCase{1, 70, 64, true}, GemmCase{3, 70, 65, false}, GemmCase{1, 64, 300, false},
          GemmCase{7, 33, 50, true}, GemmCase{70, 96, 64, true}, GemmCase{70, 65, 37, false},
          GemmCase{300, 130, 70, true}, GemmCase{300, 64, 128, false}}) {
      const Dims w_sizes = c.transpose_b ? Dims{c.k, c.n} : Dims{c.n, c.k};
      synGEMMParams params{};
      params.transpose_b = c.transpose_b;
      std::vector<float> results[2];
      size_t kernels[2];
      for (const bool is_kept : {false, true}) {
        Product product({c.k, c.m}, w_sizes, {c.n, c.m}, is_kept);
        product.b.graph.inference = inference;
        product.Multiply("gemm", params);
        kernels[is_kept] = product.Run(GetParam(), &results[is_kept]).kernels.size();
      }
      const std::string what = std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
                               std::to_string(c.k) + (c.transpose_b ? " transposed" : "");
      EXPECT_LT(kernels[0], kernels[1]) << what;
      ExpectSameBits(results[0], results[1], what);
    }
  }
}

TEST_P(WeightsTest, ConvolutionsRoundWeightsAsACopyWould) {
  for (const uint32_t kernel : {1u, 3u}) {
    for (const uint64_t channels : {3u, 20u, 32u}) {
      for (const bool inference : {true, false}) {
        synConvolutionParams params{};
        params.kW = params.kH = kernel;
        params.dW = params.dH = params.dilW = params.dilH = 1;
        params.padL = params.padR = params.padT = params.padB = static_cast<int>(kernel / 2);
        params.nGroups = 1;
        std::vector<float> results[2];
        size_t kernels[2];
        for (const bool is_kept : {false, true}) {
          Product product({channels, 9, 8, 2}, {40, channels, kernel, kernel}, {40, 9, 8, 2},
                          is_kept);
          product.b.graph.inference = inference;
          product.Multiply("spatial_convolution", params);
          kernels[is_kept] = product.Run(GetParam(), &results[is_kept]).kernels.size();
        }
        EXPECT_LT(kernels[0], kernels[1]) << kernel << ", " << channels;
        ExpectSameBits(results[0], results[1],
                       std::to_string(kernel) + ", " + std::to_string(channels));
      }
    }
  }
}

// A copy that another node reads too is written anyway, and it is half as long.
TEST_P(WeightsTest, ACopyThatOthersReadStays) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({64, 70}, syn_type_bf16), w = b.Persistent({64, 64});
  const uint32_t rounded = b.Temporary({64, 64}, syn_type_bf16);
  const uint32_t out = b.Persistent({64, 70}, syn_type_bf16);
  const uint32_t square = b.Persistent({64, 64}, syn_type_bf16);
  b.Node("cast_f32_to_bf16", {w}, {rounded});
  b.Node("gemm", {x, rounded}, {out}, synGEMMParams{});
  b.Node("gemm", {rounded, rounded}, {square}, synGEMMParams{});
  GraphRun run(b.graph);
  ASSERT_TRUE(run.Compile(GetParam()).ok());
  EXPECT_GE(run.recipe.workspace_bytes, 64u * 64 * 2);
}

// Training writes weights after every step: kept copies would be stale, and as large as the model.
TEST_P(WeightsTest, TrainingKeepsNoPackedWeightsButThoseReadTwice) {
  for (const bool inference : {true, false}) {
    GraphBuilder b;
    b.graph.inference = inference;
    const uint32_t x = b.Persistent({64, 200}), first = b.Persistent({64, 64});
    const uint32_t twice = b.Persistent({64, 64}), out = b.Persistent({64, 200});
    const uint32_t one = b.Temporary({64, 200}), two = b.Temporary({64, 200});
    b.Node("gemm", {x, first}, {one}, synGEMMParams{});
    b.Node("gemm", {one, twice}, {two}, synGEMMParams{});
    b.Node("gemm", {two, twice}, {out}, synGEMMParams{});
    GraphRun run(b.graph);
    ASSERT_TRUE(run.Compile(GetParam()).ok());
    EXPECT_EQ(run.recipe.packed.size(), inference ? 2u : 1u);
  }
}

// A forward and its backward in one recipe read a weight once as it is and once transposed.
TEST_P(WeightsTest, TrainingKeepsNoPanelsThatOneProductReads) {
  for (const bool inference : {true, false}) {
    GraphBuilder b;
    b.graph.inference = inference;
    const uint32_t x = b.Persistent({64, 200}), w = b.Persistent({64, 64});
    const uint32_t y = b.Temporary({64, 200}), out = b.Persistent({64, 200});
    b.Node("gemm", {x, w}, {y}, synGEMMParams{});
    b.Node("gemm", {y, w}, {out}, synGEMMParams{0, 1});
    GraphRun run(b.graph);
    ASSERT_TRUE(run.Compile(GetParam()).ok());
    EXPECT_EQ(run.recipe.packed.size(), inference ? 2u : 0u);
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
