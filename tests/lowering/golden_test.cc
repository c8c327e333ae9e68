// Exact goldens of the lowering. For every tests/lowering/goldens/*.hir (the IR at the end of the
// pipeline) there are the recorded syn* calls and the program. `lowering_golden_test --update`
// rewrites the goldens; review the difference like code. op_examples.golden has the nodes of the op
// table's examples.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler_server/ir/text.h"
#include "compiler_server/lowering/lower_graph.h"
#include "tests/lowering/goldens.h"
#include "tests/lowering/op_examples.h"
#include "tests/lowering/recording_synapse.h"

namespace hpu::compiler {
namespace {

bool update = false;

// Returns the calls that the lowering of the graph makes, and the program.
std::string Recorded(const ir::Graph& graph) {
  hpu::testing::TakeRecordedCalls();
  LoweredProgram program;
  const absl::Status lowered =
      LowerGraph(graph, hpu::testing::RecordingSynapse(), {}, "forward", &program);
  std::string text = hpu::testing::TakeRecordedCalls();
  return text + (lowered.ok() ? PrintProgram(program.program) : ToText(lowered) + "\n");
}

void ExpectGolden(const std::filesystem::path& golden, const std::string& text) {
  if (update) {
    std::ofstream(golden) << text;
    return;
  }
  EXPECT_EQ(text, hpu::testing::ReadFile(golden))
      << "run lowering_golden_test --update and review the diff";
}

class LoweringGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LoweringGolden, RecordsTheSameCalls) {
  const std::filesystem::path source = hpu::testing::GoldenSource(GetParam());
  const absl::StatusOr<ir::Graph> graph = ir::Parse(hpu::testing::ReadFile(source));
  ASSERT_TRUE(graph.ok()) << ToText(graph.status());
  ExpectGolden(std::filesystem::path(source).replace_extension(".golden"), Recorded(*graph));
}

INSTANTIATE_TEST_SUITE_P(Goldens, LoweringGolden, ::testing::ValuesIn(hpu::testing::GoldenNames()),
                         [](const auto& param_info) { return param_info.param; });

TEST(OpExamples, RecordTheSameNodes) {
  std::string nodes;
  for (const hpu::testing::OpExample& example : hpu::testing::kOpExamples) {
    const std::string types = example.types;
    const std::string first = types.substr(0, types.find(' '));
    const absl::StatusOr<ir::Graph> graph = ir::Parse(hpu::testing::ExampleText(example, first));
    ASSERT_TRUE(graph.ok()) << example.name << ": " << ToText(graph.status());
    nodes += std::string(example.name) + "\n";
    std::istringstream calls(Recorded(*graph));
    for (std::string call; std::getline(calls, call);) {
      if (call.starts_with("synNodeCreate")) nodes += "  " + call + "\n";
    }
  }
  ExpectGolden(std::filesystem::path(hpu::testing::kGoldens) / "op_examples.golden", nodes);
}

}  // namespace
}  // namespace hpu::compiler

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) hpu::compiler::update |= std::string(argv[i]) == "--update";
  return RUN_ALL_TESTS();
}
