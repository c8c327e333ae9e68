// Tests the table of passes: each pass can be left out where its row says so, errors carry its
// name, graphs are verified between passes, and work grows with the graph and not with its square.
#include "graph_compiler/pipeline.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph_compiler/ir/verify.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

// The graph has normalised rows, a product with an epilogue, a softmax, a long sum, and an update
// in place.
GraphBuilder SomeOfEverything() {
  GraphBuilder b;
  const uint32_t x = b.Persistent({24, 8});
  const uint32_t w = b.Persistent({24, 24});
  const uint32_t normed = b.Temporary({24, 8});
  b.Node("layer_norm_fwd_f32", {x, b.Persistent({24}), b.Persistent({24})},
         {normed, b.Temporary({1, 8}), b.Temporary({1, 8})}, ns_LayerNormKernel_Params{1, 1e-5f});
  const uint32_t product = b.Temporary({24, 8});
  b.Node("gemm", {normed, w}, {product}, synGEMMParams{0, 0});
  const uint32_t active = b.Temporary({24, 8});
  b.Node("sigmoid_fwd_f32", {product}, {active});
  const uint32_t updated = b.Persistent({24, 8});
  b.graph.tensors[updated].section = b.graph.tensors[x].section;
  b.Node("add_fwd_f32", {x, active}, {updated});
  const uint32_t soft = b.Persistent({24, 8});
  b.Node("softmax_fwd_f32", {updated}, {soft}, ns_Softmax_Params{0});
  const uint32_t turned = b.Persistent({8, 24});
  b.Node("transpose", {soft}, {turned}, synTransposeParams{{1, 0, 0, 0, 0}, 2});
  const uint32_t many = b.Persistent({100000});
  const uint32_t total = b.Persistent({1});
  b.Node("reduce_sum_fwd_f32", {many}, {total}, ns_Reduction_Params{0});
  return b;
}

std::vector<std::vector<float>> Results(const GraphDesc& graph, const std::string& disabled) {
  GraphRun run(graph);
  CompileOptions options;
  options.isa = IsaLevel::kV2;
  options.verify = true;
  if (!disabled.empty()) options.disabled_passes = {disabled};
  auto recipe = CompileGraph(graph, options);
  EXPECT_TRUE(recipe.ok()) << recipe.status();
  if (!recipe.ok()) return {};
  run.recipe = std::move(*recipe);
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    const TensorDesc& tensor = graph.tensors[t];
    if (tensor.placement != TensorPlacement::kPersistent) continue;
    run.Set(t, RandomFloats(Elements(tensor.sizes), t, -0.5f, 0.5f));
  }
  // x and its update share memory, which holds x.
  run.Set(0, RandomFloats(Elements(graph.tensors[0].sizes), 99, -0.5f, 0.5f));
  run.Execute(0);
  std::vector<std::vector<float>> results;
  for (uint32_t t = 0; t < graph.tensors.size(); ++t) {
    if (graph.tensors[t].placement == TensorPlacement::kPersistent) {
      results.push_back(run.Get<float>(t));
    }
  }
  return results;
}

TEST(PipelineTest, ResultsAreRightWithoutAnyOneOptionalPass) {
  const GraphBuilder b = SomeOfEverything();
  const auto wanted = Results(b.graph, "");
  int left_out = 0;
  for (const Pass& pass : Pipeline()) {
    if (!pass.optional) continue;
    ++left_out;
    const auto results = Results(b.graph, std::string(pass.name));
    ASSERT_EQ(results.size(), wanted.size());
    for (size_t t = 0; t < wanted.size(); ++t) {
      ExpectNear(results[t], wanted[t], 1e-4, std::string(pass.name));
    }
  }
  EXPECT_EQ(left_out, 12);
}

TEST(PipelineTest, APassLeftOutLeavesItsWorkUndone) {
  const GraphBuilder b = SomeOfEverything();
  const auto kernels = [&](const std::string& disabled) {
    CompileOptions options;
    if (!disabled.empty()) options.disabled_passes = {disabled};
    return CompileGraph(b.graph, options)->kernels.size();
  };
  const size_t all = kernels("");
  EXPECT_GT(kernels("epilogues"), all);
  EXPECT_GT(kernels("row-groups"), all);
  EXPECT_LT(kernels("split-reductions"), all);
}

TEST(PipelineTest, OnlyOptionalPassesCanBeSwitchedOff) {
  const GraphBuilder b = SomeOfEverything();
  CompileOptions options;
  options.disabled_passes = {"schedule"};
  EXPECT_EQ(CompileGraph(b.graph, options).status().ToString(),
            "INVALID_ARGUMENT: graph '': pass 'schedule' cannot be switched off");
  options.disabled_passes = {"magic"};
  EXPECT_EQ(CompileGraph(b.graph, options).status().ToString(),
            "INVALID_ARGUMENT: graph '': no pass is named 'magic'");
}

TEST(PipelineTest, DeterministicOptionIsEveryNodesOwnWish) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({16, 18, 18, 1});
  const uint32_t w = b.Persistent({16, 16, 3, 3});
  synConvolutionParams params{};
  params.kW = params.kH = 3;
  params.dW = params.dH = params.dilW = params.dilH = 1;
  params.nGroups = 1;
  b.Node("spatial_convolution", {x, w}, {b.Persistent({16, 16, 16, 1})}, params);
  CompileOptions options;
  const Bytes fast = CompileGraph(b.graph, options)->code;
  options.deterministic = true;
  const Bytes direct = CompileGraph(b.graph, options)->code;
  EXPECT_NE(direct, fast);
  options.deterministic = false;
  b.graph.nodes[0].deterministic = true;
  EXPECT_EQ(CompileGraph(b.graph, options)->code, direct);
}

TEST(PipelineTest, DumpsWhatPassesChangedAndHowLongTheyTook) {
  const std::filesystem::path dir = testing::TempDir() + "/pipeline_dump";
  std::filesystem::remove_all(dir);
  GraphBuilder b = SomeOfEverything();
  b.graph.name = "some";
  CompileOptions options;
  options.dump_dir = dir;
  ASSERT_TRUE(CompileGraph(b.graph, options).ok());
  EXPECT_TRUE(std::filesystem::exists(dir / "some-0-import.txt"));
  EXPECT_TRUE(std::filesystem::exists(dir / "some-8-epilogues.txt"));
  EXPECT_FALSE(std::filesystem::exists(dir / "some-4-inline-constants.txt"));  // it changed nothing
  std::ifstream file(dir / "some-passes.txt");
  std::string line;
  std::vector<std::string> names;
  while (std::getline(file, line)) names.push_back(line.substr(0, line.find(' ')));
  std::vector<std::string> wanted;
  for (const Pass& pass : Pipeline()) wanted.emplace_back(pass.name);
  EXPECT_EQ(names, wanted);
}

// Returns y = x + 1 over 4 elements.
LoopGraph SmallGraph() {
  LoopGraph graph;
  for (const char* name : {"x", "y"}) {
    Value value{name, MemoryType::kF32, {4}, {1}, Home::kPersistent};
    value.tensor = value.section = static_cast<uint32_t>(graph.values.size());
    value.bytes = 16;
    graph.values.push_back(value);
  }
  Node node;
  node.name = "add";
  node.domain = {4};
  const Access x{0, MemoryType::kF32, {1}, 0};
  node.body.ops.push_back({Opcode::kLoad, ScalarType::kF32, {}, 0, 0, x});
  node.body.ops.push_back({Opcode::kConstF32, ScalarType::kF32, {}, 1, 0, {}});
  node.body.ops.push_back({Opcode::kAdd, ScalarType::kF32, {0, 1}, 0, 0, {}});
  node.body.stores.push_back({2, {1, MemoryType::kF32, {1}, 0}});
  graph.nodes.push_back(node);
  return graph;
}

std::string Found(const LoopGraph& graph) { return Verify(graph).ToString(); }

TEST(VerifyTest, NamesWhatIsWrong) {
  EXPECT_EQ(Found(SmallGraph()), "OK");
  LoopGraph graph = SmallGraph();
  graph.nodes[0].body.ops[2].args = {0, 2};
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add': v2 uses v2, which comes later");
  graph = SmallGraph();
  graph.nodes[0].body.ops[0].access.offset = 1;
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add': v0: elements 1 to 4 of %0, which has 16 bytes");
  graph = SmallGraph();
  graph.nodes[0].body.stores[0].access.strides = {1, 1};
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add': store: access of rank 2 in a node of rank 1");
  graph = SmallGraph();
  graph.nodes[0].body.ops[2].op = Opcode::kAccumulator;
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add': v2 is the sum of a product, the node has none");
  graph = SmallGraph();
  graph.nodes[0].loop().reduced = 1;
  graph.nodes[0].loop().reduce = ReduceKind::kSum;
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add': store walks the folded dimension 0");
  graph = SmallGraph();
  graph.values[0].home = Home::kWorkspace;
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add' reads %0, which nothing writes");
  graph = SmallGraph();
  graph.values[1].home = Home::kConstant;
  EXPECT_EQ(Found(graph), "INTERNAL: node 'add' writes the constant %1");
}

// Returns layers that fuse (an epilogue, a row group, a chain of maps) over persistent weights that
// share a section, with results that outlive them.
GraphDesc Deep(uint64_t nodes) {
  GraphBuilder b;
  uint32_t x = b.Persistent({8, 8});
  for (uint64_t i = 0; b.graph.nodes.size() < nodes; ++i) {
    const uint32_t weight = b.Persistent({8, 8});
    b.graph.tensors[weight].section = 0;
    b.graph.tensors[weight].section_offset = 256 * (i + 1);
    const uint32_t product = b.Temporary({8, 8});
    b.Node("gemm", {x, weight}, {product}, synGEMMParams{0, 0});
    const uint32_t sum = b.Temporary({8, 8});
    b.Node("add_fwd_f32", {product, x}, {sum});
    const uint32_t soft = b.Temporary({8, 8});
    b.Node("softmax_fwd_f32", {sum}, {soft}, ns_Softmax_Params{0});
    x = i % 8 == 7 ? b.Persistent({8, 8}) : b.Temporary({8, 8});
    b.Node("mult_fwd_f32", {soft, sum}, {x});
  }
  return b.graph;
}

// All nodes read one value.
GraphDesc Wide(uint64_t nodes) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({8, 8});
  while (b.graph.nodes.size() < nodes) {
    b.Node("add_fwd_f32", {x, b.Persistent({8, 8})}, {b.Persistent({8, 8})});
  }
  return b.graph;
}

void ExpectNearLinear(GraphDesc (*make)(uint64_t)) {
  const auto seconds = [](const GraphDesc& graph) {
    double best = 1e9;
    for (int i = 0; i < 2; ++i) {
      // The CPU time of this process: other processes on the machine do not count.
      const clock_t start = clock();
      EXPECT_TRUE(CompileGraph(graph, {}).ok());
      best = std::min(best, static_cast<double>(clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  };
  const double small = seconds(make(2000));
  const double large = seconds(make(40000));
  // A quadratic step that takes a tenth of the small graph's time would make this factor 58. Caches
  // that other processes use as well make it up to 33.
  EXPECT_LT(large, 45 * small) << small << " s for 2,000 nodes, " << large << " s for 40,000";
}

TEST(PipelineTest, TwentyTimesTheNodesTakeAboutTwentyTimesTheTime) { ExpectNearLinear(Deep); }
TEST(PipelineTest, TwentyTimesTheReadersTakeAboutTwentyTimesTheTime) { ExpectNearLinear(Wide); }

}  // namespace
}  // namespace hpu::graph_compiler
