// Checks which kernels run before the others and are left out while weights stay the same
// (plan/prologue.h).
#include "graph_compiler/ir/loop_graph.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

// y = x (a b) is two products of n x n, and the second one depends on weights alone.
class ProductOfWeights {
 public:
  explicit ProductOfWeights(uint64_t n = 16) : n_(n) {
    x_ = b_.Persistent({n, n});
    for (uint32_t& weight : weights_) {
      weight = b_.Persistent({n, n});
      b_.graph.tensors[weight].weight = true;
    }
    product_ = b_.Temporary({n, n});
    y_ = b_.Persistent({n, n});
    b_.Node("gemm", {weights_[0], weights_[1]}, {product_}, synGEMMParams{});
    b_.Node("gemm", {x_, product_}, {y_}, synGEMMParams{});
  }

  GraphDesc& graph() { return b_.graph; }
  GraphBuilder& builder() { return b_; }
  uint32_t weight(size_t i) const { return weights_[i]; }
  uint32_t product() const { return product_; }

  // Compiles, runs and compares; returns the recipe.
  Recipe Check() {
    GraphRun run(b_.graph);
    const auto x = RandomFloats(n_ * n_), a = RandomFloats(n_ * n_, 2),
               b = RandomFloats(n_ * n_, 3);
    run.Set(x_, x);
    run.Set(weights_[0], a);
    run.Set(weights_[1], b);
    const absl::Status status = run.Run(IsaLevel::kV3);
    EXPECT_TRUE(status.ok()) << status;
    ExpectNear(run.Get<float>(y_), Times(x, Times(a, b)), 1e-4);
    return run.recipe;
  }

 private:
  std::vector<float> Times(const std::vector<float>& a, const std::vector<float>& b) const {
    std::vector<float> result(n_ * n_);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) {
        double sum = 0;
        for (size_t k = 0; k < n_; ++k) sum += double(a[i * n_ + k]) * b[k * n_ + j];
        result[i * n_ + j] = static_cast<float>(sum);
      }
    }
    return result;
  }

  const uint64_t n_;
  GraphBuilder b_;
  uint32_t x_ = 0, product_ = 0, y_ = 0;
  uint32_t weights_[2] = {};
};

TEST(PrologueTest, WhatComesOfWeightsAloneIsKept) {
  ProductOfWeights model;
  const Recipe recipe = model.Check();
  EXPECT_EQ(recipe.prologue, 1u);
  EXPECT_EQ(recipe.kept_bytes, 16u * 16 * 4);
  ASSERT_EQ(recipe.kernels.size(), 2u);
  EXPECT_EQ(recipe.kernels[0].operands.back().kind, OperandRef::Kind::kKept);
}

TEST(PrologueTest, TheTextOfAGraphNamesKeptValues) {
  LoopGraph graph;
  graph.values.emplace_back().home = Home::kKept;
  EXPECT_EQ(ToText(graph).find("%0 = kept "), 0u) << ToText(graph);
}

TEST(PrologueTest, InputsAreNoWeights) {
  for (const size_t i : {0, 1}) {
    ProductOfWeights model;
    model.graph().tensors[model.weight(i)].weight = false;
    const Recipe recipe = model.Check();
    EXPECT_EQ(recipe.prologue, 0u);
    EXPECT_EQ(recipe.kept_bytes, 0u);
  }
}

TEST(PrologueTest, TrainingKeepsNothing) {
  ProductOfWeights model;
  model.graph().inference = false;
  EXPECT_EQ(model.Check().prologue, 0u);
}

TEST(PrologueTest, ItCanBeSwitchedOff) {
  ProductOfWeights model;
  CompileOptions options;
  options.disabled_passes = {"prologue"};
  const auto recipe = CompileGraph(model.graph(), options);
  ASSERT_TRUE(recipe.ok()) << recipe.status();
  EXPECT_EQ(recipe->prologue, 0u);
}

// A weight that the graph writes, under its own name or another's, is not treated as one.
TEST(PrologueTest, WhatTheGraphWritesIsNoWeight) {
  for (const bool own_name : {true, false}) {
    ProductOfWeights model;
    GraphBuilder& b = model.builder();
    const uint32_t written = own_name ? model.weight(1) : b.Persistent({16, 16});
    b.graph.tensors[written].section = b.graph.tensors[model.weight(1)].section;
    b.Node("exp_fwd_f32", {model.weight(0)}, {written});
    GraphRun run(b.graph);
    const absl::Status status = run.Compile(IsaLevel::kV3);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(run.recipe.prologue, 0u) << own_name;
  }
}

// An output is the caller's memory, so a kernel that also writes an output runs in every launch.
TEST(PrologueTest, OutputsAreWrittenEachTime) {
  ProductOfWeights model;
  const uint32_t copy = model.builder().Persistent({16, 16});
  model.builder().Node("exp_fwd_f32", {model.product()}, {copy});
  GraphRun run(model.graph());
  ASSERT_TRUE(run.Compile(IsaLevel::kV3).ok());
  EXPECT_EQ(run.recipe.prologue, 0u);
}

// Maps whose results outgrow both their sources and a MiB would cost more memory than they are
// worth, for example quantised weights in full width.
TEST(PrologueTest, LargeResultsOfMapsAreNotKept) {
  for (const uint64_t n : {512, 1024}) {
    GraphBuilder b;
    const uint32_t x = b.Persistent({n, n});
    const uint32_t quantized = b.Persistent({n, n}, syn_type_int8);
    b.graph.tensors[quantized].weight = true;
    const uint32_t wide = b.Temporary({n, n}), power = b.Temporary({n, n});
    const uint32_t y = b.Persistent({n, n});
    b.Node("cast_i8_to_f32", {quantized}, {wide});
    b.Node("exp_fwd_f32", {wide}, {power});
    b.Node("gemm", {x, power}, {y}, synGEMMParams{});
    GraphRun run(b.graph);
    const absl::Status status = run.Compile(IsaLevel::kV3);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(run.recipe.kept_bytes, n == 512 ? uint64_t{1} << 20 : 0) << n;
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
