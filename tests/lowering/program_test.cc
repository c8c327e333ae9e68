// Compares programs with the reference interpreter: IR text, passes, lowering, recipes and launches
// on the emulated device must give the interpreter's result for the same graph. All goldens run,
// and a table of every op and element type.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler_server/ir/interpreter.h"
#include "compiler_server/ir/text.h"
#include "tests/lowering/goldens.h"
#include "tests/lowering/test_device.h"

namespace hpu::compiler {
namespace {

using hpu::testing::CompileText;
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
                const std::vector<ir::HostTensor>& actual, const char* what, double factor) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(ir::Difference(expected[i], actual[i]), factor * Tolerance(expected[i].dtype))
        << what << " " << i << " of type " << DTypeName(expected[i].dtype);
  }
}

// Compiles and runs the graph, and compares outputs and inputs with those of the interpreter.
void CheckText(const std::string& text, double factor = 1) {
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
  ExpectSame(expected->outputs, actual->outputs, "output", factor);
  ExpectSame(expected->inputs, actual->inputs, "input", factor);
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

// A graph body with "T" for the element type, and the types to insert. `%x` and `%y` are T[4,6],
// `%s` is T[6], `%i` i64[4,6] and `%b` bool[4,6]; the body defines %r.
struct OpCase {
  const char* name;
  const char* body;
  const char* types;
  double factor = 1;
};

constexpr char kFloats[] = "f32 bf16 f16";
constexpr char kNumbers[] = "f32 bf16 f16 i64 i32 i16 i8 u8";
constexpr char kIntegers[] = "i64 i32 i16 i8 u8 bool";
constexpr char kAll[] = "f32 bf16 f16 i64 i32 i16 i8 u8 bool";
// These types include those that are only moved.
constexpr char kMoved[] = "f32 bf16 f16 i64 i32 i16 i8 u8 bool f64";

#define UNARY(op, types) {#op, "%r = " #op " %x : T[4,6]", types}
#define BINARY(op, types) {#op, "%r = " #op " %x, %s : T[4,6]", types}
#define COMPARE(op, types) {#op, "%r = " #op " %x, %y : bool[4,6]", types}

const OpCase kOps[] = {
    UNARY(abs, kNumbers),
    UNARY(neg, kNumbers),
    UNARY(sign, kNumbers),
    UNARY(relu, kNumbers),
    UNARY(acos, kFloats),
    UNARY(acosh, kFloats),
    UNARY(asin, kFloats),
    UNARY(asinh, kFloats),
    UNARY(atan, kFloats),
    UNARY(atanh, kFloats),
    UNARY(ceil, kFloats),
    UNARY(cos, kFloats),
    UNARY(cosh, kFloats),
    UNARY(erf, kFloats),
    UNARY(exp, kFloats),
    UNARY(exp2, kFloats),
    UNARY(expm1, kFloats),
    UNARY(floor, kFloats),
    UNARY(gelu, kFloats),
    UNARY(gelu_tanh, kFloats),
    UNARY(hard_sigmoid, kFloats),
    UNARY(hard_swish, kFloats),
    UNARY(log, kFloats),
    UNARY(log10, kFloats),
    UNARY(log1p, kFloats),
    UNARY(log2, kFloats),
    UNARY(mish, kFloats),
    UNARY(reciprocal, kFloats),
    UNARY(round, kFloats),
    UNARY(rsqrt, kFloats),
    UNARY(sigmoid, kFloats),
    UNARY(silu, kFloats),
    UNARY(sin, kFloats),
    UNARY(sinc, kFloats),
    UNARY(sinh, kFloats),
    UNARY(sqrt, kFloats),
    UNARY(tan, kFloats),
    UNARY(tanh, kFloats),
    UNARY(trunc, kFloats),
    UNARY(bitwise_not, "i64 i32 i16 i8 u8"),
    UNARY(logical_not, "bool"),
    BINARY(add, kNumbers),
    BINARY(sub, kNumbers),
    BINARY(mul, kNumbers),
    BINARY(max, kNumbers),
    BINARY(min, kNumbers),
    BINARY(div, kFloats),
    BINARY(pow, kFloats),
    BINARY(atan2, kFloats),
    BINARY(hypot, kFloats),
    BINARY(xlogy, kFloats),
    BINARY(bitwise_and, kIntegers),
    BINARY(bitwise_or, kIntegers),
    BINARY(bitwise_xor, kIntegers),
    BINARY(logical_and, "bool"),
    BINARY(logical_or, "bool"),
    BINARY(logical_xor, "bool"),
    {"floor_div", "%k = full {value = 3.0} : T[]\n %r = floor_div %x, %k : T[4,6]", kNumbers},
    {"remainder", "%k = full {value = 3.0} : T[]\n %r = remainder %x, %k : T[4,6]", kNumbers},
    {"fmod", "%k = full {value = 3.0} : T[]\n %r = fmod %x, %k : T[4,6]", kNumbers},
    COMPARE(eq, kAll),
    COMPARE(lt, kAll),
    COMPARE(le, kAll),
    COMPARE(gt, kAll),
    COMPARE(ge, kAll),
    {"isnan", "%0 = log %x : T[4,6]\n %r = isnan %0 : bool[4,6]", kFloats},
    {"isinf", "%0 = log %x : T[4,6]\n %r = isinf %0 : bool[4,6]", kFloats},
    {"isfinite", "%0 = log %x : T[4,6]\n %r = isfinite %0 : bool[4,6]", kFloats},
    {"where", "%r = where %b, %x, %s : T[4,6]", kAll},
    {"elu", "%r = elu %x {alpha = 0.7} : T[4,6]", kFloats},
    {"leaky_relu", "%r = leaky_relu %x {alpha = 0.1} : T[4,6]", kFloats},
    {"softplus", "%r = softplus %x {beta = 2.0, threshold = 3.0} : T[4,6]", kFloats},
    {"cast_f32", "%r = cast %x : f32[4,6]", kAll},
    {"cast_bf16", "%r = cast %x : bf16[4,6]", kAll},
    {"cast_i64", "%r = cast %x : i64[4,6]", kAll},
    {"cast_i32", "%r = cast %x : i32[4,6]", kAll},
    {"cast_i8", "%r = cast %x : i8[4,6]", kAll},
    {"cast_bool", "%r = cast %x : bool[4,6]", kAll},
    {"reduce_sum", "%r = reduce_sum %x {dims = [1]} : T[4]", kNumbers},
    {"reduce_sum_all", "%r = reduce_sum %x {dims = [0,1]} : T[]", kNumbers},
    {"reduce_mean", "%r = reduce_mean %x {dims = [0], keepdim = true} : T[1,6]", kFloats},
    {"reduce_max", "%r = reduce_max %x {dims = [0]} : T[6]", kNumbers},
    {"reduce_min", "%r = reduce_min %x {dims = [1]} : T[4]", kNumbers},
    {"reduce_prod", "%r = reduce_prod %x {dims = [1]} : T[4]", kNumbers},
    {"argmax", "%r = argmax %x {dims = [1]} : i64[4]", kNumbers},
    {"argmin", "%r = argmin %x {dims = [0], keepdim = true} : i64[1,6]", kNumbers},
    {"cumsum", "%r = cumsum %x {dim = 0} : T[4,6]", kNumbers},
    {"cumprod", "%r = cumprod %x {dim = 1} : T[4,6]", kNumbers},
    {"cummax", "%r, %0 = cummax %x {dim = 1} : T[4,6], i64[4,6]", kNumbers},
    {"cummax_index", "%0, %r = cummax %x {dim = 0} : T[4,6], i64[4,6]", kNumbers},
    {"cummin", "%r, %0 = cummin %x {dim = 0} : T[4,6], i64[4,6]", kNumbers},
    {"cummin_index", "%0, %r = cummin %x {dim = 1} : T[4,6], i64[4,6]", kNumbers},
    {"topk", "%r, %0 = topk %x {dim = 1, k = 3, largest = true} : T[4,3], i64[4,3]", kNumbers},
    {"topk_index", "%0, %r = topk %x {dim = 0, k = 4, largest = false} : T[4,6], i64[4,6]",
     kNumbers},
    {"softmax", "%r = softmax %x {dim = 1} : T[4,6]", kFloats},
    {"softmax_outer", "%r = softmax %x {dim = 0} : T[4,6]", kFloats},
    {"log_softmax", "%r = log_softmax %x {dim = 1} : T[4,6]", kFloats},
    {"layer_norm", "%r = layer_norm %x, %s, %s {axes = 1, eps = 1e-05} : T[4,6]", kFloats},
    {"layer_norm_plain", "%r = layer_norm %x, none, none {axes = 2, eps = 1e-05} : T[4,6]",
     kFloats},
    {"rms_norm", "%r = rms_norm %x, %s {axes = 1, eps = 1e-05} : T[4,6]", kFloats},
    {"matmul", "%r = matmul %x, %y {transpose_b = true} : T[4,4]", kFloats},
    {"matmul_transposed", "%r = matmul %x, %y {transpose_a = true} : T[6,6]", kFloats},
    {"matmul_quantized", "%w = cast %y : i8[4,6]\n %r = matmul_quantized %x, %w : T[4,4]", kFloats},
    {"matmul_quantized_groups",
     "%w = cast %y : i8[4,6]\n %f = slice %x {limits = [2,4], starts = [0,0], steps = [1,1]} : "
     "T[2,4]\n"
     " %r = matmul_quantized %x, %w, %f, %f : T[4,4]",
     kFloats},
    {"matmul_quantized_blocks",
     "%0 = abs %s : T[6]\n %1 = expand %0 : T[16,6]\n %2 = cast %1 : u8[16,6]\n"
     " %w = reshape %2 : u8[1,6,16]\n %f = full {value = 0.5} : T[2,32]\n"
     " %r = matmul_quantized %x, %w, %f : T[4,32]",
     kFloats},
    {"permute", "%r = permute %x {perm = [1,0]} : T[6,4]", kMoved},
    {"reshape", "%r = reshape %x : T[2,12]", kMoved},
    {"expand", "%r = expand %s : T[3,4,6]", kMoved},
    {"slice", "%r = slice %x {limits = [4,6], starts = [1,0], steps = [2,3]} : T[2,2]", kMoved},
    {"concat", "%r = concat %x, %y {dim = 1} : T[4,12]", kMoved},
    {"pad", "%r = pad %x {high = [0,2], low = [1,0], value = 1.0} : T[5,8]", kAll},
    {"as_strided", "%r = as_strided %x {offset = 2, strides = [3,2]} : T[4,5]", kMoved},
    {"as_strided_scatter", "%r = as_strided_scatter %x, %s {offset = 1, strides = [4]} : T[4,6]",
     kMoved},
    {"gather", "%r = gather %x, %i {dim = 0} : T[4,6,6]", kMoved},
    {"gather_inner", "%r = gather %x, %i {dim = 1} : T[4,4,6]", kMoved},
    {"gather_elements", "%r = gather_elements %x, %i {dim = 0} : T[4,6]", kMoved},
    {"scatter_add", "%r = scatter_add %x, %i, %x {dim = 0} : T[4,6]", kNumbers},
    {"scatter_add_inner", "%r = scatter_add %x, %i, %x {dim = 1} : T[4,6]", kNumbers},
    {"scatter_max", "%r = scatter_max %x, %i, %x {dim = 1} : T[4,6]", kNumbers},
    {"scatter_min", "%r = scatter_min %x, %i, %x {dim = 0} : T[4,6]", kNumbers},
    {"scatter_mul", "%r = scatter_mul %x, %i, %x {dim = 1} : T[4,6]", kNumbers},
    {"mul_number", "%n = full {value = 0.1} : f32[]\n %r = mul %x, %n : T[4,6]", "bf16 f16"},
    {"number_sub", "%n = full {value = 1e6} : f32[]\n %r = sub %n, %x : T[4,6]", "bf16 f16"},
    {"div_number", "%n = full {value = 7e4} : f32[]\n %r = div %x, %n : T[4,6]", "bf16 f16"},
    {"floor_div_number", "%n = full {value = 0.1} : f32[]\n %r = floor_div %x, %n : T[4,6]",
     "bf16 f16"},
    {"full", "%r = full {value = 3.0} : T[2,3]", kAll},
    {"iota", "%r = iota {start = 2.0, step = 3.0} : T[20]", kNumbers},
};

std::vector<std::pair<const OpCase*, std::string>> OpMatrix() {
  std::vector<std::pair<const OpCase*, std::string>> matrix;
  for (const OpCase& op : kOps) {
    std::istringstream types(op.types);
    for (std::string type; types >> type;) matrix.emplace_back(&op, type);
  }
  return matrix;
}

class OpProgram : public ::testing::TestWithParam<std::pair<const OpCase*, std::string>> {};

TEST_P(OpProgram, EqualsTheInterpreter) {
  const auto& [op, type] = GetParam();
  std::string text =
      "graph @g(%x: T[4,6], %y: T[4,6], %s: T[6], %i: i64[4,6], %b: bool[4,6]) {\n " +
      std::string(op->body) + "\n return %r\n}\n";
  for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at)) {
    text.replace(at, 1, type);
    at += type.size();
  }
  CheckText(text, op->factor);
}

INSTANTIATE_TEST_SUITE_P(Ops, OpProgram, ::testing::ValuesIn(OpMatrix()), [](const auto& row) {
  return std::string(row.param.first->name) + "_" + row.param.second;
});

}  // namespace
}  // namespace hpu::compiler
