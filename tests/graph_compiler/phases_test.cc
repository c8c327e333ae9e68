// Checks control edges: which node runs first, and what nodes see of memory that tensors share.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

const Dims kSizes = {5, 3};

std::vector<float> Negated(std::vector<float> values) {
  for (float& v : values) v = -v;
  return values;
}

// Returns the transpose of a matrix over kSizes, which is a matrix over the reverse sizes.
std::vector<float> Transposed(const std::vector<float>& values, size_t columns, size_t rows) {
  std::vector<float> result;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < rows; ++r) result.push_back(values[r * columns + c]);
  }
  return result;
}

class ControlEdgeTest : public testing::Test {
 protected:
  // Adds a persistent tensor in the memory of another.
  uint32_t Alias(uint32_t tensor, const Dims& sizes) {
    const uint32_t alias = b_.Persistent(sizes);
    b_.graph.tensors[alias].section = b_.graph.tensors[tensor].section;
    return alias;
  }
  uint32_t AddNode(const std::string& guid, std::vector<uint32_t> inputs, uint32_t output) {
    b_.Node(guid, std::move(inputs), {output});
    return static_cast<uint32_t>(b_.graph.nodes.size() - 1);
  }
  uint32_t AddTranspose(uint32_t input, uint32_t output) {
    b_.Node("transpose", {input}, {output}, synTransposeParams{{1, 0, 0, 0, 0}, 2});
    return static_cast<uint32_t>(b_.graph.nodes.size() - 1);
  }
  void Edge(uint32_t blocking, uint32_t blocked) {
    b_.graph.nodes[blocked].blocked_by.push_back(blocking);
  }
  std::vector<std::string> KernelNames(const GraphRun& run) {
    std::vector<std::string> names;
    for (const KernelLaunch& kernel : run.recipe.kernels) names.push_back(kernel.name);
    return names;
  }

  GraphBuilder b_;
};

TEST_F(ControlEdgeTest, OrdersKernelsAgainstTheirCreation) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes);
  const uint32_t first = AddNode("exp_fwd_f32", {x}, y);
  const uint32_t u = b_.Persistent(kSizes), v = b_.Persistent(kSizes);
  const uint32_t second = AddNode("neg_fwd_f32", {u}, v);
  Edge(second, first);
  GraphRun run(b_.graph);
  ASSERT_TRUE(run.Run(GraphIsaLevels().front()).ok());
  EXPECT_EQ(KernelNames(run), (std::vector<std::string>{"neg_fwd_f321", "exp_fwd_f320"}));
}

TEST_F(ControlEdgeTest, KeepsApartWhatFusionWouldJoin) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes);
  const uint32_t between = b_.Temporary(kSizes);
  const uint32_t first = AddNode("exp_fwd_f32", {x}, between);
  const uint32_t last = AddNode("neg_fwd_f32", {between}, y);
  const auto kernels = [&] {
    GraphRun run(b_.graph);
    run.Set(x, std::vector<float>(15, 0.5f));
    EXPECT_TRUE(run.Run(GraphIsaLevels().front()).ok());
    EXPECT_NEAR(run.Get<float>(y)[14], -std::exp(0.5f), 1e-6);
    return run.recipe.kernels.size();
  };
  EXPECT_EQ(kernels(), 1u);
  Edge(first, last);
  EXPECT_EQ(kernels(), 2u);
}

TEST_F(ControlEdgeTest, DecideWhetherAReaderSeesTheWrite) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes), out = b_.Persistent(kSizes);
  const uint32_t write = AddNode("relu_fwd_f32", {y}, Alias(x, kSizes));
  const uint32_t read = AddNode("neg_fwd_f32", {x}, out);
  const auto old = RandomFloats(15, 1), fresh = RandomFloats(15, 2, 0, 1);
  const auto result = [&] {
    GraphRun run(b_.graph);
    run.Set(x, old);
    run.Set(y, fresh);
    EXPECT_TRUE(run.Run(GraphIsaLevels().front()).ok());
    EXPECT_EQ(run.Get<float>(x), fresh);
    return run.Get<float>(out);
  };
  EXPECT_EQ(result(), Negated(old));
  Edge(write, read);
  EXPECT_EQ(result(), Negated(fresh));
}

// t = transpose(x) is a view; a write to x between it and its reader must not be visible through
// it.
TEST_F(ControlEdgeTest, ViewsShowWhatWasThereWhenTheirNodeRan) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes), out = b_.Persistent({3, 5});
  const uint32_t t = b_.Temporary({3, 5});
  const uint32_t view = AddTranspose(x, t);
  const uint32_t write = AddNode("relu_fwd_f32", {y}, Alias(x, kSizes));
  const uint32_t read = AddNode("neg_fwd_f32", {t}, out);
  const auto old = RandomFloats(15, 1), fresh = RandomFloats(15, 2, 0, 1);
  const auto result = [&] {
    GraphRun run(b_.graph);
    run.Set(x, old);
    run.Set(y, fresh);
    EXPECT_TRUE(run.Run(GraphIsaLevels().front()).ok());
    return run.Get<float>(out);
  };
  Edge(write, read);
  EXPECT_EQ(result(), Negated(Transposed(old, 5, 3)));
  Edge(write, view);
  EXPECT_EQ(result(), Negated(Transposed(fresh, 5, 3)));
}

TEST_F(ControlEdgeTest, TheLaterOfTwoWritersStays) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes);
  const uint32_t first = AddNode("relu_fwd_f32", {y}, x);
  const uint32_t second = AddNode("neg_fwd_f32", {y}, Alias(x, kSizes));
  Edge(second, first);
  GraphRun run(b_.graph);
  const auto values = RandomFloats(15, 2, 0, 1);
  run.Set(y, values);
  ASSERT_TRUE(run.Run(GraphIsaLevels().front()).ok());
  EXPECT_EQ(run.Get<float>(x), values);
}

// A write in place that cannot work element by element goes through a temporary, which is copied
// before the later readers run.
TEST_F(ControlEdgeTest, BufferedWritesAreThereForLaterReaders) {
  const uint32_t x = b_.Persistent({4, 4}), out = b_.Persistent({4, 4});
  const uint32_t write = AddTranspose(x, Alias(x, {4, 4}));
  const uint32_t read = AddNode("neg_fwd_f32", {x}, out);
  Edge(write, read);
  GraphRun run(b_.graph);
  const auto values = RandomFloats(16);
  run.Set(x, values);
  ASSERT_TRUE(run.Run(GraphIsaLevels().front()).ok());
  EXPECT_EQ(run.Get<float>(out), Negated(Transposed(values, 4, 4)));
}

// A weight that the recipe itself writes is not packed before it is written.
TEST_F(ControlEdgeTest, ProductsSeeWeightsWrittenBefore) {
  const uint32_t a = b_.Persistent({8, 6}), w = b_.Persistent({7, 8}), y = b_.Persistent({7, 8});
  const uint32_t out = b_.Persistent({7, 6});
  const uint32_t write = AddNode("relu_fwd_f32", {y}, Alias(w, {7, 8}));
  b_.Node("gemm", {a, w}, {out}, synGEMMParams{});
  Edge(write, 1);
  GraphRun run(b_.graph);
  const auto as = RandomFloats(48, 1), fresh = RandomFloats(56, 2, 0, 1);
  run.Set(a, as);
  run.Set(w, std::vector<float>(56, 99));
  run.Set(y, fresh);
  ASSERT_TRUE(run.Run(GraphIsaLevels().front()).ok());
  std::vector<float> wanted;
  for (size_t m = 0; m < 6; ++m) {
    for (size_t n = 0; n < 7; ++n) {
      float sum = 0;
      for (size_t k = 0; k < 8; ++k) sum += as[m * 8 + k] * fresh[k * 7 + n];
      wanted.push_back(sum);
    }
  }
  ExpectNear(run.Get<float>(out), wanted, 1e-5);
}

// The elements between those of an insertion may belong to another tensor, so they are not written,
// not even with what they hold.
TEST_F(ControlEdgeTest, InsertionsInPlaceTouchOnlyTheirElements) {
  const uint32_t x = b_.Persistent({7}), fresh = b_.Persistent({3});
  synStridedOpParams params{};
  params.baseOffset = 1;
  params.strides[0] = 2;
  b_.Node("strided_insert", {x, fresh}, {Alias(x, {7})}, params);
  const uint32_t y = b_.Persistent({7});
  b_.Node("strided_insert", {y, fresh}, {b_.Persistent({7})}, params);
  GraphRun run(b_.graph);
  run.Set(x, std::vector<float>{0, 1, 2, 3, 4, 5, 6});
  run.Set(y, std::vector<float>{0, 1, 2, 3, 4, 5, 6});
  run.Set(fresh, std::vector<float>{10, 20, 30});
  ASSERT_TRUE(run.Run(GraphIsaLevels().front()).ok());
  EXPECT_EQ(run.Get<float>(x), (std::vector<float>{0, 10, 2, 20, 4, 30, 6}));
  // One kernel for the first insertion; the second also copies, to memory of its own.
  EXPECT_EQ(run.recipe.kernels.size(), 3U);
}

// Moments and a weight are each read and then written after everything else: this is one kernel in
// place.
TEST_F(ControlEdgeTest, CopiesBehindAllElseAreDoneInPlace) {
  const Dims sizes = {64, 4};
  const uint32_t grad = b_.Persistent(sizes);
  const uint32_t moment = b_.Persistent(sizes), weight = b_.Persistent(sizes);
  const uint32_t new_moment = b_.Temporary(sizes), root = b_.Temporary(sizes);
  const uint32_t new_weight = b_.Temporary(sizes);
  AddNode("add_fwd_f32", {moment, grad}, new_moment);
  AddNode("exp_fwd_f32", {new_moment}, root);
  const uint32_t last = AddNode("sub_fwd_f32", {weight, root}, new_weight);
  const uint32_t first_copy = AddNode("identity", {new_moment}, Alias(moment, sizes));
  const uint32_t second_copy = AddNode("identity", {new_weight}, Alias(weight, sizes));
  Edge(last, first_copy);
  Edge(first_copy, second_copy);
  const auto grads = RandomFloats(256, 1), moments = RandomFloats(256, 2);
  const auto weights = RandomFloats(256, 3);
  for (const IsaLevel isa : GraphIsaLevels()) {
    GraphRun run(b_.graph);
    run.Set(grad, grads);
    run.Set(moment, moments);
    run.Set(weight, weights);
    ASSERT_TRUE(run.Run(isa).ok());
    EXPECT_EQ(run.recipe.kernels.size(), 1u);
    std::vector<float> sums, differences;
    for (size_t i = 0; i < 256; ++i) {
      sums.push_back(moments[i] + grads[i]);
      differences.push_back(weights[i] - std::exp(sums[i]));
    }
    EXPECT_EQ(run.Get<float>(moment), sums);
    ExpectNear(run.Get<float>(weight), differences, 1e-5);
  }
}

// The copy over x stays where it is while an earlier node reads x or writes the same memory.
TEST_F(ControlEdgeTest, CopiesStayBehindWhoeverWouldSeeThem) {
  const uint32_t x = b_.Persistent(kSizes), y = b_.Persistent(kSizes), out = b_.Persistent(kSizes);
  const uint32_t fresh = b_.Temporary(kSizes);
  const uint32_t make = AddNode("relu_fwd_f32", {y}, fresh);
  const uint32_t between = AddNode("neg_fwd_f32", {x}, out);
  const uint32_t copy = AddNode("identity", {fresh}, Alias(x, kSizes));
  Edge(make, between);
  Edge(between, copy);
  const auto old = RandomFloats(15, 1), values = RandomFloats(15, 2, 0, 1);
  const auto run_with = [&] {
    GraphRun run(b_.graph);
    run.Set(x, old);
    run.Set(y, values);
    EXPECT_TRUE(run.Run(GraphIsaLevels().front()).ok());
    EXPECT_EQ(run.Get<float>(x), values);
    return run.Get<float>(out);
  };
  EXPECT_EQ(run_with(), Negated(old));
  b_.graph.nodes[between].inputs = {y};
  b_.graph.nodes[between].outputs = {Alias(x, kSizes)};
  EXPECT_EQ(run_with().size(), 15u);
}

TEST_F(ControlEdgeTest, ContradictionsAreRefused) {
  const uint32_t x = b_.Persistent(kSizes), t = b_.Temporary(kSizes), y = b_.Persistent(kSizes);
  const uint32_t first = AddNode("exp_fwd_f32", {x}, t);
  const uint32_t second = AddNode("neg_fwd_f32", {t}, y);
  Edge(second, first);
  GraphRun run(b_.graph);
  const absl::Status status = run.Run(GraphIsaLevels().front());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(ToText(status).find("cannot be ordered: control edges"), std::string::npos)
      << ToText(status);
}

}  // namespace
}  // namespace hpu::graph_compiler
