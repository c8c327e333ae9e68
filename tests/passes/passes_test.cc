#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler_server/ir/build.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/passes/decompose.h"
#include "compiler_server/passes/pipeline.h"

namespace hpu::compiler {
namespace {

using testing::HasSubstr;

ir::Graph Parsed(const std::string& text) {
  auto graph = ir::Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

constexpr const char* kSmall =
    "graph @small(%x: f32[4]) { %0 = aten \"aten.relu.default\"(self = %x) : f32[4] return %0 }";

TEST(Door, UnknownPassNamesAreRefused) {
  ir::Graph graph = Parsed(kSmall);
  const absl::Status status = RunPipeline(graph, {}, {.disabled = {"fuse"}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no pass is named 'fuse'; there are canonicalize decompose"));
}

TEST(Door, DisabledPassesDoNotRun) {
  ir::Graph graph = Parsed(kSmall);
  ASSERT_TRUE(RunPipeline(graph, {}, {.disabled = {"decompose"}}).ok());
  EXPECT_EQ(graph.nodes()[0]->op, ir::OpKind::kAten);
}

TEST(Door, ReportsProgressAndTimes) {
  ir::Graph graph = Parsed(kSmall);
  std::vector<std::string> seen;
  std::vector<PassTiming> timings;
  PassOptions options;
  options.timings = &timings;
  options.progress = [&](std::string_view pass, size_t done, size_t total) {
    EXPECT_EQ(done, seen.size());
    EXPECT_EQ(total, Pipeline().size());
    seen.emplace_back(pass);
  };
  ASSERT_TRUE(RunPipeline(graph, {}, options).ok());
  ASSERT_EQ(timings.size(), seen.size());
  EXPECT_EQ(timings[0].pass, "canonicalize");
  EXPECT_EQ(timings.back().nodes, 1u);
}

TEST(Door, BadGraphsAreThePassesFault) {
  ir::Graph graph = Parsed(kSmall);
  const Pass broken = {"broken", [](ir::Graph& g, const PassContext&) {
                         g.storages()[0].type.sizes[0] = 5;
                         return absl::OkStatus();
                       }};
  const absl::Status status = RunPasses(graph, {&broken, 1}, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pass broken left a bad graph"));
}

TEST(Door, DumpsTextAndDotAfterEveryChange) {
  const auto dir = std::filesystem::temp_directory_path() / "hpu_pass_dump_test";
  std::filesystem::remove_all(dir);
  ir::Graph graph = Parsed(kSmall);
  ASSERT_TRUE(RunPipeline(graph, {}, {.dump_dir = dir.string()}).ok());
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    names.insert(file.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"small.00-import.hir", "small.00-import.dot",
                                          "small.02-decompose.hir", "small.02-decompose.dot"}));
  std::filesystem::remove_all(dir);
}

TEST(Decompose, KnowsExactlyTheTargetsOfTheTable) {
  std::set<std::string> table;
  std::ifstream file(HPU_ATEN_TARGETS);
  for (std::string line; std::getline(file, line);) {
    if (line.front() == '"') table.insert(line.substr(1, line.find('"', 1) - 1));
  }
  ASSERT_GT(table.size(), 100u);
  std::set<std::string> known;
  for (std::string_view target : DecomposedTargets()) known.emplace(target);
  for (const std::string& target : table) {
    // as_strided is resolved at import, and elementwise rows by the table itself.
    const bool elsewhere =
        target == "aten.as_strided.default" || ir::ElementwiseFromAten(target).has_value();
    EXPECT_EQ(known.count(target) > 0, !elsewhere) << target;
  }
  for (const std::string& target : known) EXPECT_EQ(table.count(target), 1u) << target;
}

TEST(Decompose, KeepsTheReasonWithTheCall) {
  ir::Graph graph = Parsed(
      "graph @g(%x: f32[4], %d: f64[4]) {"
      " %0 = aten \"aten.lgamma.default\"(self = %x) : f32[4]"
      " %1 = aten \"aten.neg.default\"(self = %d) : f64[4]"
      " %2 = aten \"aten.softmax.int\"(self = %x, dim = 3, dtype = none) : f32[4] return %0, %1, "
      "%2 }");
  ASSERT_TRUE(RunPasses(graph, {FindPass("decompose"), 1}, {}).ok());
  EXPECT_EQ(graph.nodes()[0]->aten->reason, "no rule for this operator");
  EXPECT_EQ(graph.nodes()[1]->aten->reason, "the device has no f64");
  EXPECT_EQ(graph.nodes()[2]->aten->reason, "dimension 3 is outside rank 1");
}

TEST(Decompose, AsksWhetherARecipeCanHoldTheResult) {
  ir::Graph graph = Parsed(kSmall);
  PassContext context;
  context.accept = [](const ir::Node& node) {
    return node.op == ir::OpKind::kRelu ? Unimplemented("no relu here") : absl::OkStatus();
  };
  ASSERT_TRUE(RunPasses(graph, {FindPass("decompose"), 1}, context).ok());
  EXPECT_EQ(graph.nodes()[0]->op, ir::OpKind::kAten);
  EXPECT_EQ(graph.nodes()[0]->aten->reason, "no relu here");
}

// The capture of a stack of residual layers.
ir::Graph Layers(int count) {
  std::string text = "graph @deep(%x: f32[8,16], %w: f32[16,16], %b: f32[16]) {\n";
  std::string last = "%x";
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    const std::string f = " : f32[8,16]\n";
    text += "%t" + n + " = aten \"aten.t.default\"(self = %w) : f32[16,16]{1,16}\n";
    text += "%m" + n + " = aten \"aten.addmm.default\"(self = %b, mat1 = " + last + ", mat2 = %t" +
            n + ", beta = 1, alpha = 1)" + f;
    text +=
        "%g" + n + " = aten \"aten.gelu.default\"(self = %m" + n + ", approximate = \"none\")" + f;
    text += "%v" + n + " = aten \"aten.view.default\"(self = %g" + n + ", size = [8,16])" + f;
    text += "%a" + n + " = aten \"aten.add.Tensor\"(self = %v" + n + ", other = " + last +
            ", alpha = 1)" + f;
    text += "%l" + n + " = aten \"aten.layer_norm.default\"(input = %a" + n +
            ", normalized_shape = [16], weight = %b, bias = %b, eps = 1e-05, cudnn_enable = true)" +
            f;
    last = "%l" + n;
  }
  return Parsed(text + "return " + last + " }");
}

TEST(Pipeline, GraphsAreSmallAndEqualEveryTime) {
  ir::Graph once = Layers(3);
  ir::Graph again = Layers(3);
  ASSERT_TRUE(RunPipeline(once).ok());
  ASSERT_TRUE(RunPipeline(again).ok());
  EXPECT_EQ(ir::Print(once), ir::Print(again));
  EXPECT_EQ(once.nodes().size(), 3u * 5);  // matmul, add, gelu, add, layer_norm
}

// The number of visits must not grow faster than the graph. Created nodes are counted in place of
// time.
TEST(Pipeline, WorkIsLinearInDepth) {
  ir::Graph small = Layers(50);
  ir::Graph large = Layers(500);
  ASSERT_TRUE(RunPipeline(small).ok());
  ASSERT_TRUE(RunPipeline(large).ok());
  EXPECT_LE(large.value_count(), 10 * small.value_count() + 100);
}

}  // namespace
}  // namespace hpu::compiler
