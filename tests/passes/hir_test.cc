// Runs the text tests of the passes. A file tests/passes/<pass>/<case>.hir contains
//   // RUN: simplify,canonicalize        passes, in order ("pipeline" = all)
//   graph @g(...) { ... }
//   // CHECK: %0 = relu %x               appears in the output, in this order
//   // CHECK-NOT: permute                appears nowhere in the output
// and, unless it has a line "// NO-EVALUATE", the interpreter must give the same numbers before and
// after. With a line "// ROUNDS: 8e-3" they may differ by that share of the range, because the pass
// leaves out roundings.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/passes/pipeline.h"
#include "tests/ir/hir_file.h"

namespace hpu::compiler {
namespace {

constexpr const char* kFolder = "tests/passes";
constexpr double kTolerance = 1e-5;

using hpu::testing::Directives;

std::vector<Pass> PassesOf(const std::string& run) {
  if (run == "pipeline") return {Pipeline().begin(), Pipeline().end()};
  std::vector<Pass> passes;
  std::istringstream names(run);
  for (std::string name; std::getline(names, name, ',');) {
    const Pass* pass = FindPass(name);
    EXPECT_NE(pass, nullptr) << name;
    if (pass != nullptr) passes.push_back(*pass);
  }
  return passes;
}

void ExpectSameNumbers(const ir::RunResult& before, const ir::RunResult& after, double tolerance) {
  ASSERT_EQ(before.outputs.size(), after.outputs.size());
  for (size_t i = 0; i < before.outputs.size(); ++i) {
    EXPECT_LE(ir::Difference(before.outputs[i], after.outputs[i]), tolerance) << "output " << i;
  }
  for (size_t i = 0; i < before.inputs.size(); ++i) {
    EXPECT_LE(ir::Difference(before.inputs[i], after.inputs[i]), tolerance) << "input " << i;
  }
}

class Hir : public ::testing::TestWithParam<std::string> {};

TEST_P(Hir, KeepsMeaningAndHasTheForm) {
  const std::string text = hpu::testing::ReadFile(GetParam());
  const std::vector<std::string> runs = Directives(text, "RUN:");
  ASSERT_EQ(runs.size(), 1u);
  auto graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<ir::HostTensor> inputs = ir::RandomInputs(*graph, 1);
  const bool evaluate = Directives(text, "NO-EVALUATE").empty();
  absl::StatusOr<ir::RunResult> before = ir::Interpret(*graph, inputs);
  if (evaluate) {
    ASSERT_TRUE(before.ok()) << before.status();
  }
  ASSERT_TRUE(RunPasses(*graph, PassesOf(runs[0]), {}).ok());
  const std::string output = ir::Print(*graph);
  EXPECT_EQ(hpu::testing::FirstUnmet(text, output), "") << "in\n" << output;
  if (!evaluate) return;
  const auto after = ir::Interpret(*graph, inputs);
  ASSERT_TRUE(after.ok()) << after.status() << output;
  const std::vector<std::string> rounds = Directives(text, "ROUNDS:");
  ExpectSameNumbers(*before, *after, rounds.empty() ? kTolerance : std::stod(rounds[0]));
}

std::vector<std::string> AllFiles() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kFolder)) {
    if (entry.path().extension() == ".hir") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// "simplify/chains.hir" -> Hir.File/simplify_chains
std::string NameOf(const ::testing::TestParamInfo<std::string>& file) {
  std::string name =
      std::filesystem::path(file.param).lexically_relative(kFolder).replace_extension();
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Hir, ::testing::ValuesIn(AllFiles()), NameOf);

}  // namespace
}  // namespace hpu::compiler
