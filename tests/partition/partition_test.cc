// Partitions the training graphs of tests/partition/graphs. A file contains
//   graph @g(...) { ... return ...
//     tangent %t of 0
//     gradient 1 of %x
//   }
//   // CHECK: text        appears in the listing of forward, then backward, in this order
//   // CHECK-NOT: text    appears nowhere in it
// and, unless it has a line "// NO-EVALUATE", forward and backward together must give the numbers
// of the whole graph.
#include "compiler_server/partition/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/ir/verify.h"
#include "tests/ir/hir_file.h"

namespace hpu::compiler {
namespace {

constexpr const char* kFolder = "tests/partition/graphs";
constexpr double kTolerance = 1e-5;

// Runs the forward on the given inputs, and the backward on what it saved and the tangents. Returns
// the outputs in the order of the training graph.
std::vector<ir::HostTensor> RunParts(const PartitionedGraph& parts,
                                     const std::vector<ir::HostTensor>& inputs, size_t tangents,
                                     std::vector<ir::HostTensor>* inputs_after) {
  const std::vector<ir::HostTensor> given(inputs.begin(),
                                          inputs.end() - static_cast<ptrdiff_t>(tangents));
  const auto forward = ir::Interpret(parts.forward, given);
  EXPECT_TRUE(forward.ok()) << forward.status();
  if (!forward.ok()) return {};
  *inputs_after = forward->inputs;
  std::vector<ir::HostTensor> taken;
  for (const uint32_t output : parts.saved) taken.push_back(forward->outputs[output]);
  taken.insert(taken.end(), inputs.end() - static_cast<ptrdiff_t>(tangents), inputs.end());
  const auto backward = ir::Interpret(parts.backward, taken);
  EXPECT_TRUE(backward.ok()) << backward.status();
  if (!backward.ok()) return {};
  std::vector<ir::HostTensor> outputs(forward->outputs.begin(),
                                      forward->outputs.begin() + parts.returned);
  outputs.insert(outputs.end(), backward->outputs.begin(), backward->outputs.end());
  return outputs;
}

class Partitioned : public ::testing::TestWithParam<std::string> {};

TEST_P(Partitioned, HasTheFormAndTheNumbersOfTheWhole) {
  const std::string text = hpu::testing::ReadFile(GetParam());
  const auto graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(ir::Verify(*graph).ok()) << ir::Verify(*graph);
  // The text form includes tangents and gradients.
  const auto again = ir::Parse(ir::Print(*graph));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ir::Print(*again), ir::Print(*graph));

  const auto parts = Partition(*graph);
  ASSERT_TRUE(parts.ok()) << parts.status();
  for (const ir::Graph* part : {&parts->forward, &parts->backward}) {
    EXPECT_TRUE(ir::Verify(*part).ok()) << ir::Verify(*part) << ir::Print(*part);
  }
  const std::string listing = ir::Print(parts->forward) + ir::Print(parts->backward);
  EXPECT_EQ(hpu::testing::FirstUnmet(text, listing), "") << "in\n" << listing;

  if (!hpu::testing::Directives(text, "NO-EVALUATE").empty()) return;
  const std::vector<ir::HostTensor> inputs = ir::RandomInputs(*graph, 1);
  const auto whole = ir::Interpret(*graph, inputs);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<ir::HostTensor> inputs_after;
  const std::vector<ir::HostTensor> outputs =
      RunParts(*parts, inputs, graph->tangents.size(), &inputs_after);
  ASSERT_EQ(outputs.size(), whole->outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_LE(ir::Difference(whole->outputs[i], outputs[i]), kTolerance) << "output " << i;
  }
  for (size_t i = 0; i < inputs_after.size(); ++i) {
    EXPECT_LE(ir::Difference(whole->inputs[i], inputs_after[i]), kTolerance) << "input " << i;
  }
}

std::vector<std::string> AllFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string NameOf(const ::testing::TestParamInfo<std::string>& file) {
  return std::filesystem::path(file.param).stem();
}

INSTANTIATE_TEST_SUITE_P(All, Partitioned, ::testing::ValuesIn(AllFiles()), NameOf);

TEST(Partition, RefusesAForwardThatNeedsATangent) {
  const auto graph = ir::Parse(
      "graph @g(%x: f32[2], %t: f32[2]) -> f32[2], f32[2] {\n"
      "  %0 = mul %x, %t : f32[2]\n"
      "  return %0, %0\n"
      "  tangent %t of 0\n"
      "  gradient 1 of %x\n"
      "}\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Partition(*graph).status().message(), "output 0 depends on a tangent");
}

TEST(Verify, TangentsAreTheLastInputsAndGradientsTheLastOutputs) {
  const auto with = [](const char* lines) {
    const auto graph = ir::Parse(
        "graph @g(%x: f32[2], %y: f32[3], %t: f32[2]) -> f32[2], f32[2] {\n"
        "  %0 = exp %x : f32[2]\n"
        "  %1 = mul %0, %t : f32[2]\n"
        "  return %0, %1\n" +
        std::string(lines) + "}\n");
    return graph.ok() ? ir::Verify(*graph) : graph.status();
  };
  EXPECT_TRUE(with("  tangent %t of 0\n  gradient 1 of %x\n").ok());
  EXPECT_FALSE(with("  tangent %t of 0\n").ok());
  EXPECT_FALSE(with("  gradient 1 of %x\n").ok());
  EXPECT_FALSE(with("  tangent %x of 0\n  gradient 1 of %x\n").ok());
  EXPECT_FALSE(with("  tangent %t of 0\n  gradient 0 of %x\n").ok());
  EXPECT_FALSE(with("  tangent %t of 1\n  gradient 1 of %x\n").ok());
  EXPECT_FALSE(with("  tangent %t of 0\n  gradient 1 of %y\n").ok());
  EXPECT_FALSE(with("  tangent %t of 0\n  gradient 7 of %x\n").ok());
}

}  // namespace
}  // namespace hpu::compiler
