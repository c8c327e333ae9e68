// Functions in parts: where they are cut, and that a program of parts gives the same results as the
// whole.
#include "compiler_server/lowering/parts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/lowering/segment.h"
#include "program/program.h"
#include "tests/lowering/goldens.h"
#include "tests/lowering/test_device.h"

namespace hpu::compiler {
namespace {

using hpu::testing::TheDevice;

// The backward of `layers` layers: each reads two saved values, passes on a narrow value and
// returns a gradient. `kind` is written after the type of the saved values.
std::string Backward(int layers, const std::string& kind) {
  std::string inputs, nodes, outputs;
  std::string last = "%t";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    inputs += "%a" + n + ": f32[8,32]" + kind + ", %w" + n + ": f32[8,32]" + kind + ", ";
    nodes += " %wide" + n + " = matmul " + last + ", %w" + n + " : f32[8,32]\n";
    nodes += " %both" + n + " = mul %wide" + n + ", %a" + n + " : f32[8,32]\n";
    nodes += " %grad" + n + " = exp %both" + n + " : f32[8,32]\n";
    nodes += " %turned" + n + " = permute %w" + n + " {perm = [1,0]} : f32[32,8]\n";
    nodes += " %narrow" + n + " = matmul %both" + n + ", %turned" + n + " : f32[8,8]\n";
    last = "%narrow" + n;
    outputs += "%grad" + n + ", ";
  }
  return "graph @g_backward(" + inputs + "%t: f32[8,8]) {\n" + nodes + " return " + outputs + last +
         "\n}\n";
}

std::vector<size_t> NodesOfSegments(const std::string& text, int64_t least_part_bytes) {
  const absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const absl::StatusOr<SegmentPlan> plan = SegmentPlan::Create(*graph, least_part_bytes);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<size_t> nodes;
  for (const Segment& segment : plan->segments()) nodes.push_back(segment.nodes.size());
  return nodes;
}

// A layer accounts for 3 KiB: two saved values and a gradient of 8 x 32.
TEST(Parts, EndBetweenLayers) {
  EXPECT_EQ(NodesOfSegments(Backward(4, " donated"), 3 << 10), (std::vector<size_t>{4, 4, 4, 4}));
  EXPECT_EQ(NodesOfSegments(Backward(4, " donated"), 6 << 10), (std::vector<size_t>{8, 8}));
  EXPECT_EQ(NodesOfSegments(Backward(48, " donated"), 1), (std::vector<size_t>(12, 16)));
}

TEST(Parts, AreNotMadeWhereNothingIsWon) {
  EXPECT_EQ(NodesOfSegments(Backward(4, " donated"), kLeastPartBytes), (std::vector<size_t>{16}));
  EXPECT_EQ(NodesOfSegments(Backward(4, ""), 1), (std::vector<size_t>{16}));
}

// The value of the first layer is also read by the sum, so it crosses every cut. That must not
// prevent cuts.
TEST(Parts, EndWhereWhatCouldStayInsideDoes) {
  std::string text = Backward(4, " donated");
  const size_t end = text.find(" return ");
  text.insert(end, " %sum = add %narrow0, %narrow3 : f32[8,8]\n");
  text.insert(text.find(" return ") + 8, "%sum, ");
  EXPECT_EQ(NodesOfSegments(text, 3 << 10), (std::vector<size_t>{4, 4, 4, 5}));
}

// A value that is wide inside a part is wide only for a short time: here there is nothing else.
TEST(Parts, AreNotMadeWhereTooMuchWouldCross) {
  std::string inputs, nodes, last = "%t";
  for (int i = 0; i < 6; ++i) {
    const std::string n = std::to_string(i);
    inputs += "%a" + n + ": f32[8,1] donated, ";
    nodes += " %e" + n + " = mul " + last + ", %a" + n + " : f32[8,8]\n";
    last = "%e" + n;
  }
  const std::string text =
      "graph @g(" + inputs + "%t: f32[8,8]) {\n" + nodes + " return " + last + "\n}\n";
  EXPECT_EQ(NodesOfSegments(text, 1), (std::vector<size_t>{6}));
}

absl::StatusOr<CompiledProgram> CompileInParts(const std::string& text) {
  RETURN_IF_ERROR(TheDevice().status());
  ASSIGN_OR_RETURN(ir::Graph graph, ir::Parse(text));
  CompileOptions options;
  options.least_part_bytes = 1;
  return TheDevice()->compiler->Compile(std::move(graph), options);
}

void ExpectInterpreted(const std::string& text, const CompiledProgram& compiled) {
  const absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<ir::HostTensor> inputs = ir::RandomInputs(*graph, 7);
  const absl::StatusOr<ir::RunResult> expected = ir::Interpret(*graph, inputs);
  const absl::StatusOr<ir::RunResult> actual = TheDevice()->runner->Run(compiled, inputs);
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  ASSERT_EQ(expected->outputs.size(), actual->outputs.size());
  for (size_t i = 0; i < expected->outputs.size(); ++i) {
    EXPECT_LE(ir::Difference(expected->outputs[i], actual->outputs[i]), 2e-2) << "output " << i;
  }
  for (size_t i = 0; i < expected->inputs.size(); ++i) {
    EXPECT_LE(ir::Difference(expected->inputs[i], actual->inputs[i]), 2e-2) << "input " << i;
  }
}

TEST(Parts, EqualLayersShareARecipe) {
  const std::string text = Backward(12, " donated");
  const absl::StatusOr<CompiledProgram> compiled = CompileInParts(text);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->statistics.launches, 12U);
  EXPECT_EQ(compiled->recipes.size(), 1U);
  ExpectInterpreted(text, *compiled);
}

// Runs every golden with all of its inputs donated, cut wherever it is possible.
class PartedGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(PartedGolden, EqualsTheInterpreter) {
  std::string text = hpu::testing::ReadFile(hpu::testing::GoldenSource(GetParam()));
  ASSERT_TRUE(TheDevice().ok()) << TheDevice().status();
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    if (graph->inputs()[i].value != nullptr) graph->Donate(i);
  }
  CompileOptions options;
  options.least_part_bytes = 1;
  const auto compiled = TheDevice()->compiler->Compile(*std::move(graph), options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  ExpectInterpreted(text, *compiled);
}

INSTANTIATE_TEST_SUITE_P(Goldens, PartedGolden,
                         ::testing::ValuesIn(hpu::testing::RunnableGoldens()),
                         [](const auto& golden) { return golden.param; });

}  // namespace
}  // namespace hpu::compiler
