// Exact goldens of the lowering: for every tests/lowering/goldens/*.hir (IR as the pipeline leaves
// it) the recorded syn* calls and the program. `lowering_golden_test --update` rewrites the
// goldens; review the difference like code.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler_server/ir/text.h"
#include "compiler_server/lowering/lower_graph.h"
#include "tests/lowering/recording_synapse.h"

namespace hpu::compiler {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "tests/lowering/goldens";
bool update = false;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".hir") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class LoweringGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LoweringGolden, RecordsTheSameCalls) {
  const fs::path source = fs::path(kFolder) / (GetParam() + ".hir");
  const absl::StatusOr<ir::Graph> graph = ir::Parse(ReadFile(source));
  ASSERT_TRUE(graph.ok()) << ToText(graph.status());
  hpu::testing::TakeRecordedCalls();
  const absl::StatusOr<LoweredGraph> lowered =
      LowerGraph(*graph, hpu::testing::RecordingSynapse(), {});
  std::string text = hpu::testing::TakeRecordedCalls();
  text += lowered.ok() ? PrintProgram(lowered->program) : ToText(lowered.status()) + "\n";
  const fs::path golden = fs::path(source).replace_extension(".golden");
  if (update) {
    std::ofstream(golden) << text;
    return;
  }
  EXPECT_EQ(text, ReadFile(golden)) << "run lowering_golden_test --update and review the diff";
}

INSTANTIATE_TEST_SUITE_P(Goldens, LoweringGolden, ::testing::ValuesIn(CaseNames()),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace hpu::compiler

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) hpu::compiler::update |= std::string(argv[i]) == "--update";
  return RUN_ALL_TESTS();
}
