// Tests order and placement: shared memory, workspace reuse, determinism, and the kernels of a
// transformer layer.
#include <cmath>
#include <numeric>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

TEST(PlanTest, AnOutputOverItsInputIsWrittenInPlaceWhenElementwise) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({50});
  const uint32_t out = b.Persistent({50});
  b.graph.tensors[out].section = b.graph.tensors[x].section;
  b.Node("exp_fwd_f32", {x}, {out});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(50);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(IsaLevel::kV2).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.workspace_bytes, 0u);
  std::vector<float> wanted;
  for (const float v : xs) wanted.push_back(std::exp(v));
  ExpectNear(run.Get<float>(out), wanted, 1e-6);
}

TEST(PlanTest, AnOutputOverAnInputOtherwiseReadGoesThroughATemporary) {
  // Here out = transpose(x) lies in the memory of x.
  GraphBuilder b;
  const uint32_t x = b.Persistent({4, 6});
  const uint32_t out = b.Persistent({6, 4});
  b.graph.tensors[out].section = b.graph.tensors[x].section;
  b.Node("transpose", {x}, {out}, synTransposeParams{{1, 0, 0, 0, 0}, 2});
  GraphRun run(b.graph);
  std::vector<float> xs(24);
  std::iota(xs.begin(), xs.end(), 0.0f);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(IsaLevel::kV2).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 2u);
  const auto out_values = run.Get<float>(out);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(out_values[i], xs[i % 6 * 4 + i / 6]);
}

TEST(PlanTest, ReadsOfAnInputComeBeforeTheWriteOverIt) {
  // The update of x is created first, but a later node still needs the old x and the new one.
  GraphBuilder b;
  const uint32_t x = b.Persistent({30});
  const uint32_t updated = b.Persistent({30});
  const uint32_t product = b.Persistent({30});
  b.graph.tensors[updated].section = b.graph.tensors[x].section;
  b.Node("exp_fwd_f32", {x}, {updated});
  b.Node("mult_fwd_f32", {updated, x}, {product});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(30);
  run.Set(x, xs);
  const absl::Status status = run.Run(IsaLevel::kV2);
  ASSERT_TRUE(status.ok()) << status;
  std::vector<float> wanted_updated;
  std::vector<float> wanted_product;
  for (const float v : xs) {
    wanted_updated.push_back(std::exp(v));
    wanted_product.push_back(std::exp(v) * v);
  }
  ExpectNear(run.Get<float>(updated), wanted_updated, 1e-6);
  ExpectNear(run.Get<float>(product), wanted_product, 1e-6);
}

TEST(PlanTest, AScatterOverItsInputStoresOnlyWhatItWrites) {
  GraphBuilder b;
  const uint32_t cache = b.Persistent({5, 7});
  const uint32_t position = b.Persistent({2}, syn_type_int32);
  const uint32_t source = b.Persistent({5, 2});
  const uint32_t updated = b.Persistent({5, 7});
  const uint32_t doubled = b.Persistent({5, 7});
  b.graph.tensors[updated].section = b.graph.tensors[cache].section;
  b.Node("index_copy_fwd_f32", {cache, position, source}, {updated}, ns_IndexCopy_Params{1});
  b.Node("add_fwd_f32", {updated, updated}, {doubled});
  GraphRun run(b.graph);
  std::vector<float> wanted = RandomFloats(35);
  const auto ss = RandomFloats(10, 2);
  run.Set(cache, wanted);
  run.Set(position, std::vector<int32_t>{6, 2});
  run.Set(source, ss);
  ASSERT_TRUE(run.Run(IsaLevel::kV2).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 2u);
  EXPECT_EQ(run.recipe.workspace_bytes, 0u);
  for (size_t i = 0; i < 5; ++i) wanted[6 * 5 + i] = ss[i];
  for (size_t i = 0; i < 5; ++i) wanted[2 * 5 + i] = ss[5 + i];
  EXPECT_EQ(run.Get<float>(updated), wanted);
  for (float& w : wanted) w += w;
  EXPECT_EQ(run.Get<float>(doubled), wanted);
}

TEST(PlanTest, AScatterOverAnInputThatIsReadElsewhereLeavesTheReaderTheOldContent) {
  GraphBuilder b;
  const uint32_t cache = b.Persistent({7});
  const uint32_t position = b.Persistent({1}, syn_type_int32);
  const uint32_t updated = b.Persistent({7});
  const uint32_t difference = b.Persistent({7});
  const uint32_t source = b.Temporary({1});
  b.graph.tensors[updated].section = b.graph.tensors[cache].section;
  b.Node("slice", {cache}, {source}, synSliceParams{{0}, {0}, {1}, {1}});
  b.Node("index_copy_fwd_f32", {cache, position, source}, {updated}, ns_IndexCopy_Params{0});
  b.Node("sub_fwd_f32", {updated, cache}, {difference});
  GraphRun run(b.graph);
  run.Set(cache, std::vector<float>{1, 2, 3, 4, 5, 6, 7});
  run.Set(position, std::vector<int32_t>{4});
  const absl::Status status = run.Run(IsaLevel::kV2);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.Get<float>(updated), (std::vector<float>{1, 2, 3, 4, 1, 6, 7}));
  EXPECT_EQ(run.Get<float>(difference), (std::vector<float>{0, 0, 0, 0, -4, 0, 0}));
}

// In products in a row, every intermediate lives only until the next one.
GraphBuilder ProductChain(int length) {
  GraphBuilder b;
  uint32_t x = b.Persistent({64, 64});
  const uint32_t w = b.Persistent({64, 64});
  for (int i = 0; i < length; ++i) {
    const uint32_t next = i + 1 == length ? b.Persistent({64, 64}) : b.Temporary({64, 64});
    b.Node("gemm", {x, w}, {next}, synGEMMParams{0, 0});
    x = next;
  }
  return b;
}

TEST(PlanTest, WorkspaceIsReused) {
  const GraphBuilder short_chain = ProductChain(3);
  const GraphBuilder long_chain = ProductChain(9);
  const auto short_recipe = CompileGraph(short_chain.graph, {});
  const auto long_recipe = CompileGraph(long_chain.graph, {});
  ASSERT_TRUE(short_recipe.ok() && long_recipe.ok());
  EXPECT_EQ(long_recipe->workspace_bytes, short_recipe->workspace_bytes);
  // Equal products share one kernel (the last one writes a persistent tensor, with equal code).
  EXPECT_EQ(long_recipe->code, short_recipe->code);
}

uint32_t Linear(GraphBuilder& b, uint32_t x, uint64_t in, uint64_t out, uint64_t rows) {
  const uint32_t y = b.Temporary({out, rows});
  b.Node("linear_fwd_f32", {x, b.Persistent({in, out}), b.Persistent({out})}, {y});
  return y;
}

uint32_t Norm(GraphBuilder& b, uint32_t x, uint64_t size, uint64_t rows) {
  const uint32_t y = b.Temporary({size, rows});
  b.Node("layer_norm_fwd_f32", {x, b.Persistent({size}), b.Persistent({size})},
         {y, b.Temporary({1, rows}), b.Temporary({1, rows})}, ns_LayerNormKernel_Params{1, 1e-5f});
  return y;
}

uint32_t Heads(GraphBuilder& b, uint32_t x, uint64_t d, uint64_t heads, uint64_t s) {
  const uint32_t split = b.Temporary({d, heads, s, 1});
  const uint32_t turned = b.Temporary({d, s, heads, 1});
  b.Node("reshape", {x}, {split});
  b.Node("transpose", {split}, {turned}, synTransposeParams{{0, 2, 1, 3, 0}, 4});
  return turned;
}

// Adds a post-norm encoder layer and returns its output.
uint32_t EncoderLayer(GraphBuilder& b, uint32_t x, uint64_t d, uint64_t heads, uint64_t s) {
  const uint64_t size = d * heads;
  const uint32_t q = Heads(b, Linear(b, x, size, size, s), d, heads, s);
  const uint32_t k = Heads(b, Linear(b, x, size, size, s), d, heads, s);
  const uint32_t v = Heads(b, Linear(b, x, size, size, s), d, heads, s);
  const uint32_t attended = b.Temporary({d, s, heads, 1});
  ns_Sdpa_Params params{};
  params.scale = 0.25f;
  b.Node("sdpa_recomp_fwd_f32", {q, k, v}, {attended}, params);
  const uint32_t back = b.Temporary({d, heads, s, 1});
  const uint32_t flat = b.Temporary({size, s});
  b.Node("transpose", {attended}, {back}, synTransposeParams{{0, 2, 1, 3, 0}, 4});
  b.Node("reshape", {back}, {flat});
  const uint32_t first = b.Temporary({size, s});
  b.Node("add_fwd_f32", {Linear(b, flat, size, size, s), x}, {first});
  const uint32_t middle = Norm(b, first, size, s);
  const uint32_t active = b.Temporary({4 * size, s});
  b.Node("gelu_fwd_f32", {Linear(b, middle, size, 4 * size, s)},
         {active, b.Temporary({4 * size, s})}, ns_GeluKernel_Params{0});
  const uint32_t second = b.Temporary({size, s});
  b.Node("add_fwd_f32", {Linear(b, active, 4 * size, size, s), middle}, {second});
  return Norm(b, second, size, s);
}

TEST(PlanTest, EncoderLayerIsNineKernelsAndDeeperModelsAddNoCode) {
  std::vector<Recipe> recipes;
  for (const int layers : {1, 3}) {
    GraphBuilder b;
    uint32_t x = b.Persistent({64, 16});
    for (int i = 0; i < layers; ++i) x = EncoderLayer(b, x, 16, 4, 16);
    const uint32_t out = b.Persistent({64, 16});
    b.Node("tanh_fwd_f32", {x}, {out});
    auto recipe = CompileGraph(b.graph, {});
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    // The kernels are q, k, v, attention, projection, norm, two of the feed-forward, and norm.
    EXPECT_EQ(recipe->kernels.size(), 9u * static_cast<size_t>(layers));
    recipes.push_back(std::move(*recipe));
  }
  EXPECT_LT(recipes[1].code.size(), 2 * recipes[0].code.size());
}

TEST(PlanTest, EqualGraphsGiveEqualBytes) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({64, 16});
  const uint32_t out = b.Persistent({64, 16});
  b.Node("tanh_fwd_f32", {EncoderLayer(b, x, 16, 4, 16)}, {out});
  for (const IsaLevel isa : {IsaLevel::kV2, IsaLevel::kV3, IsaLevel::kV4}) {
    CompileOptions options;
    options.isa = isa;
    const auto first = CompileGraph(b.graph, options);
    const auto second = CompileGraph(b.graph, options);
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(EncodeRecipe(*first), EncodeRecipe(*second));
  }
}

// Computes h = softmax(h w + x[t]) for all t; the results are adjacent in memory.
struct Recurrence {
  explicit Recurrence(uint64_t steps) {
    std::vector<uint32_t> inputs;
    std::vector<uint32_t> outputs;
    for (uint64_t t = 0; t < steps; ++t) inputs.push_back(b.Temporary({8, 1}));
    b.Node("split", {x = b.Persistent({8, steps})}, inputs, synAxisParams{1});
    uint32_t state = start = b.Persistent({8, 1});
    w = b.Persistent({8, 8});
    for (const uint32_t input : inputs) {
      const uint32_t product = b.Temporary({8, 1});
      const uint32_t sum = b.Temporary({8, 1});
      outputs.push_back(b.Temporary({8, 1}));
      b.Node("gemm", {state, w}, {product}, synGEMMParams{0, 0});
      b.Node("add_fwd_f32", {product, input}, {sum});
      b.Node("softmax_fwd_f32", {sum}, {outputs.back()}, ns_Softmax_Params{0});
      state = outputs.back();
    }
    b.Node("concat", outputs, {out = b.Persistent({8, steps})}, synAxisParams{1});
  }

  GraphBuilder b;
  uint32_t x = 0, start = 0, w = 0, out = 0;
};

TEST(PlanTest, StepsOverPartsOfABufferShareTheirCode) {
  const auto few = CompileGraph(Recurrence(4).b.graph, {});
  const auto many = CompileGraph(Recurrence(40).b.graph, {});
  ASSERT_TRUE(few.ok() && many.ok());
  EXPECT_EQ(few->kernels.size(), 8u);
  EXPECT_EQ(many->kernels.size(), 80u);
  EXPECT_EQ(few->code, many->code);
}

TEST(PlanTest, StepsOverPartsOfABufferAreTheirParts) {
  const Recurrence recurrence(5);
  GraphRun run(recurrence.b.graph);
  const std::vector<float> x = RandomFloats(40, 1, -1, 1);
  const std::vector<float> w = RandomFloats(64, 2, -0.5f, 0.5f);
  std::vector<float> state = RandomFloats(8, 3, -1, 1);
  run.Set(recurrence.x, x);
  run.Set(recurrence.w, w);
  run.Set(recurrence.start, state);
  ASSERT_TRUE(run.Run(IsaLevel::kV2).ok());
  std::vector<float> wanted;
  for (size_t t = 0; t < 5; ++t) {
    std::vector<double> powers(8);
    for (size_t j = 0; j < 8; ++j) {
      double sum = x[t * 8 + j];
      for (size_t i = 0; i < 8; ++i) sum += static_cast<double>(state[i]) * w[i * 8 + j];
      powers[j] = std::exp(sum);
    }
    const double total = std::accumulate(powers.begin(), powers.end(), 0.0);
    for (size_t j = 0; j < 8; ++j) state[j] = static_cast<float>(powers[j] / total);
    wanted.insert(wanted.end(), state.begin(), state.end());
  }
  ExpectNear(run.Get<float>(recurrence.out), wanted, 1e-5, "recurrence");
}

TEST(PlanTest, ResultsDoNotDependOnTheSplitOfTasks) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({64, 16});
  const uint32_t out = b.Persistent({64, 16});
  b.Node("tanh_fwd_f32", {EncoderLayer(b, x, 16, 4, 16)}, {out});
  std::vector<std::vector<float>> results;
  for (const uint64_t piece : {0, 1, 3}) {
    GraphRun run(b.graph);
    for (uint32_t t = 0; t < b.graph.tensors.size(); ++t) {
      const TensorDesc& tensor = b.graph.tensors[t];
      if (tensor.placement != TensorPlacement::kPersistent || t == out) continue;
      run.Set(t, RandomFloats(Elements(tensor.sizes), t, -0.3f, 0.3f));
    }
    ASSERT_TRUE(run.Run(IsaLevel::kV2, piece).ok());
    results.push_back(run.Get<float>(out));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace hpu::graph_compiler
