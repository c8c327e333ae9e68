// Compares programs with the reference interpreter: IR text, passes, lowering, recipes and launches
// on the emulated device must give the interpreter's result for the same graph. All goldens run,
// and the examples of every op with every element type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "tests/lowering/goldens.h"
#include "tests/lowering/op_examples.h"
#include "tests/lowering/test_device.h"

namespace hpu::compiler {
namespace {

using hpu::testing::CompileText;
using hpu::testing::OpExample;
using hpu::testing::TheDevice;

// The largest accepted difference relative to the range of the tensor, which is a few roundings of
// the type.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 2e-5;
    case DType::kBF16:
      return 2e-2;
    case DType::kF16:
      return 2e-3;
    default:
      return 0;
  }
}

void ExpectSame(const std::vector<ir::HostTensor>& expected,
                const std::vector<ir::HostTensor>& actual, const char* what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(ir::Difference(expected[i], actual[i]), Tolerance(expected[i].dtype))
        << what << " " << i << " of type " << DTypeName(expected[i].dtype);
  }
}

// Compiles and runs the graph, and compares outputs and inputs with those of the interpreter.
void CheckText(const std::string& text) {
  ASSERT_TRUE(TheDevice().ok()) << ToText(TheDevice().status());
  absl::StatusOr<ir::Graph> graph = ir::Parse(text);
  ASSERT_TRUE(graph.ok()) << ToText(graph.status()) << "\n" << text;
  const std::vector<ir::HostTensor> inputs = ir::RandomInputs(*graph, 7);
  const absl::StatusOr<ir::RunResult> expected = ir::Interpret(*graph, inputs);
  ASSERT_TRUE(expected.ok()) << ToText(expected.status()) << "\n" << text;

  const absl::StatusOr<CompiledProgram> compiled =
      TheDevice()->compiler->Compile(*std::move(graph), {});
  ASSERT_TRUE(compiled.ok()) << ToText(compiled.status()) << "\n" << text;
  const absl::StatusOr<ir::RunResult> actual = TheDevice()->runner->Run(*compiled, inputs);
  ASSERT_TRUE(actual.ok()) << ToText(actual.status()) << "\n" << text;
  SCOPED_TRACE(text);
  ExpectSame(expected->outputs, actual->outputs, "output");
  ExpectSame(expected->inputs, actual->inputs, "input");
}

class GoldenProgram : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenProgram, EqualsTheInterpreter) {
  CheckText(hpu::testing::ReadFile(hpu::testing::GoldenSource(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Goldens, GoldenProgram,
                         ::testing::ValuesIn(hpu::testing::RunnableGoldens()),
                         [](const auto& golden) { return golden.param; });

// lgamma runs eagerly between recipes. The interpreter cannot compute it, so the expected numbers
// are written here.
TEST(EagerProgram, RunsBetweenRecipes) {
  ASSERT_TRUE(TheDevice().ok()) << ToText(TheDevice().status());
  absl::StatusOr<ir::Graph> graph =
      ir::Parse(hpu::testing::ReadFile(hpu::testing::GoldenSource("eager_between")));
  ASSERT_TRUE(graph.ok()) << ToText(graph.status());
  ir::HostTensor x = ir::MakeHostTensor(DType::kF32, {4, 6});
  for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = 0.25 + 0.5 * static_cast<double>(i);
  const absl::StatusOr<CompiledProgram> compiled =
      TheDevice()->compiler->Compile(*std::move(graph), {});
  ASSERT_TRUE(compiled.ok()) << ToText(compiled.status());
  EXPECT_EQ(compiled->statistics.eager_nodes, 1U);
  EXPECT_EQ(compiled->statistics.launches, 2U);
  const absl::StatusOr<ir::RunResult> result = TheDevice()->runner->Run(*compiled, {x});
  ASSERT_TRUE(result.ok()) << ToText(result.status());
  ASSERT_EQ(result->outputs[0].sizes, (ir::Dims{6, 4}));
  for (size_t i = 0; i < x.data.size(); ++i) {
    const double in = x.data[i % 4 * 6 + i / 4];
    EXPECT_NEAR(result->outputs[0].data[i], std::lgamma(in) + in, 1e-4 * (1 + std::lgamma(in)));
    EXPECT_NEAR(result->outputs[1].data[i], std::lgamma(in), 1e-4 * (1 + std::lgamma(in)));
  }
}

// Numbers of the generator: one draw, a second one after it, and a mask that is fused with its
// reader.
TEST(RandomProgram, EqualsTheInterpreter) {
  CheckText(R"(graph @g(%x: f32[5,7], %s: i64[] seed, %o: i64[] offset draws 30) {
  %0 = random_uniform %s, %o {base = 0} : f32[5,7]
  %1 = random_uniform %s, %o {base = 9} : f32[7,5]
  %2 = permute %1 {perm = [1,0]} : f32[5,7]
  %3 = full {value = 0.5} : f32[]
  %4 = lt %0, %3 : bool[5,7]
  %5 = where %4, %x, %2 : f32[5,7]
  %6 = random_uniform %s, %o {base = 18} : f32[]
  %7 = random_uniform %s, %o {base = 19} : f32[0,3]
  return %0, %5, %6, %7
})");
}

// These are 32768 ones in f32, which are too large for a recipe, so the program carries them.
TEST(LargeConstants, AreTheProgramsOwn) {
  std::string data;
  for (int i = 0; i < 32768; ++i) data += "0000803f";
  const std::string text = "graph @g(%x: f32[32768]) {\n const %k : f32[32768] = 0x" + data +
                           "\n %0 = add %x, %k : f32[32768]\n return %0\n}\n";
  CheckText(text);
  const absl::StatusOr<CompiledProgram> compiled = CompileText(text, {});
  ASSERT_TRUE(compiled.ok()) << ToText(compiled.status());
  const absl::StatusOr<Program> program = DecodeProgram(compiled->program);
  ASSERT_TRUE(program.ok());
  ASSERT_EQ(program->constants.size(), 1U);
  EXPECT_EQ(program->constants[0].data.size(), 131072U);
  EXPECT_LT(compiled->recipes[0].size(), 65536U);
}

using ExampleOfType = std::pair<const OpExample*, std::string>;

void AddTypes(const OpExample& example, std::vector<ExampleOfType>* matrix) {
  std::istringstream types(example.types);
  for (std::string type; types >> type;) matrix->emplace_back(&example, type);
}

// A number beside narrow floats is f32.
constexpr OpExample kNumbersBesideFloats[] = {
    {"mul_number", "bf16 f16", "%n = full {value = 0.1} : f32[]\n %r = mul %x, %n : T[4,6]"},
    {"number_sub", "bf16 f16", "%n = full {value = 1e6} : f32[]\n %r = sub %n, %x : T[4,6]"},
    {"div_number", "bf16 f16", "%n = full {value = 7e4} : f32[]\n %r = div %x, %n : T[4,6]"},
    {"floor_div_number", "bf16 f16",
     "%n = full {value = 0.1} : f32[]\n %r = floor_div %x, %n : T[4,6]"},
};

std::vector<ExampleOfType> OpMatrix() {
  std::vector<ExampleOfType> matrix;
  for (const OpExample& example : hpu::testing::kOpExamples) AddTypes(example, &matrix);
  for (const OpExample& example : kNumbersBesideFloats) AddTypes(example, &matrix);
  return matrix;
}

class OpProgram : public ::testing::TestWithParam<ExampleOfType> {};

TEST_P(OpProgram, EqualsTheInterpreter) {
  const auto& [example, type] = GetParam();
  CheckText(hpu::testing::ExampleText(*example, type));
}

INSTANTIATE_TEST_SUITE_P(Ops, OpProgram, ::testing::ValuesIn(OpMatrix()), [](const auto& row) {
  return std::string(row.param.first->name) + "_" + row.param.second;
});

}  // namespace
}  // namespace hpu::compiler
