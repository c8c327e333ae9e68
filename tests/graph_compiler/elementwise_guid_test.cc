// Compares elementwise kinds, comparisons and casts with a plain reference, over odd sizes, element
// types and ISA levels.
#include <functional>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

float FromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Sets a float tensor of any float type.
void SetFloats(GraphRun& run, uint32_t tensor, synDataType type, const std::vector<float>& values) {
  if (type == syn_type_float) {
    run.Set(tensor, values);
    return;
  }
  std::vector<uint16_t> narrow;
  for (const float v : values) narrow.push_back(ToBf16(v));
  run.Set(tensor, narrow);
}
std::vector<float> GetFloats(GraphRun& run, uint32_t tensor, synDataType type) {
  if (type == syn_type_float) return run.Get<float>(tensor);
  std::vector<float> values;
  for (const uint16_t bits : run.Get<uint16_t>(tensor)) values.push_back(FromBf16(bits));
  return values;
}
std::vector<float> Rounded(std::vector<float> values, synDataType type) {
  if (type == syn_type_bf16) {
    for (float& v : values) v = FromBf16(ToBf16(v));
  }
  return values;
}

struct ElementwiseCase {
  const char* guid;  // without the suffix
  size_t arity;
  double (*reference)(double, double, double);
  float low = -2;
  float high = 2;
};

const ElementwiseCase kElementwise[] = {
    {"add_fwd", 2, [](double a, double b, double) { return a + b; }},
    {"sub_fwd", 2, [](double a, double b, double) { return a - b; }},
    {"mult_fwd", 2, [](double a, double b, double) { return a * b; }},
    {"div_fwd", 2, [](double a, double b, double) { return a / b; }, 0.5f, 3},
    {"min_fwd", 2, [](double a, double b, double) { return std::min(a, b); }},
    {"max_fwd", 2, [](double a, double b, double) { return std::max(a, b); }},
    {"pow_fwd", 2, [](double a, double b, double) { return std::pow(a, b); }, 0.1f, 3},
    {"mod_fwd", 2, [](double a, double b, double) { return std::fmod(a, b); }, 0.5f, 7},
    {"rem_fwd", 2, [](double a, double b, double) { return a - std::floor(a / b) * b; }, -7, 7},
    {"atan2_fwd", 2, [](double a, double b, double) { return std::atan2(a, b); }},
    {"hypot_fwd", 2, [](double a, double b, double) { return std::hypot(a, b); }},
    {"xlogy_fwd", 2, [](double a, double b, double) { return a * std::log(b); }, 0.1f, 9},
    {"logaddexp_fwd", 2,
     [](double a, double b, double) { return std::log(std::exp(a) + std::exp(b)); }},
    {"neg_fwd", 1, [](double a, double, double) { return -a; }},
    {"abs_fwd", 1, [](double a, double, double) { return std::abs(a); }},
    {"sign_fwd", 1, [](double a, double, double) { return a > 0   ? 1.0
                                                          : a < 0 ? -1.0
                                                                  : 0.0; }},
    {"floor_fwd", 1, [](double a, double, double) { return std::floor(a); }},
    {"ceil_fwd", 1, [](double a, double, double) { return std::ceil(a); }},
    {"trunc_fwd", 1, [](double a, double, double) { return std::trunc(a); }},
    {"exp_fwd", 1, [](double a, double, double) { return std::exp(a); }},
    {"pow2_fwd", 1, [](double a, double, double) { return std::exp2(a); }},
    {"expm1_fwd", 1, [](double a, double, double) { return std::expm1(a); }},
    {"log_fwd", 1, [](double a, double, double) { return std::log(a); }, 0.1f, 9},
    {"log1p_fwd", 1, [](double a, double, double) { return std::log1p(a); }, 0, 9},
    {"sqrt_fwd", 1, [](double a, double, double) { return std::sqrt(a); }, 0, 9},
    {"rsqrt_fwd", 1, [](double a, double, double) { return 1 / std::sqrt(a); }, 0.1f, 9},
    {"reciprocal_fwd", 1, [](double a, double, double) { return 1 / a; }, 0.2f, 3},
    {"sin_fwd", 1, [](double a, double, double) { return std::sin(a); }},
    {"sinc_fwd", 1,
     [](double a, double, double) { return a == 0 ? 1 : std::sin(M_PI * a) / (M_PI * a); }},
    {"cos_fwd", 1, [](double a, double, double) { return std::cos(a); }},
    {"tanh_fwd", 1, [](double a, double, double) { return std::tanh(a); }},
    {"erf_fwd", 1, [](double a, double, double) { return std::erf(a); }},
    {"sigmoid_fwd", 1, [](double a, double, double) { return 1 / (1 + std::exp(-a)); }},
    {"silu_fwd", 1, [](double a, double, double) { return a / (1 + std::exp(-a)); }},
    {"relu_fwd", 1, [](double a, double, double) { return std::max(a, 0.0); }},
    {"gelu_fwd", 1,
     [](double a, double, double) { return 0.5 * a * (1 + std::erf(a / std::sqrt(2.0))); }},
    {"mish_fwd", 1,
     [](double a, double, double) { return a * std::tanh(std::log1p(std::exp(a))); }},
    {"hard_swish_fwd", 1,
     [](double a, double, double) { return a * std::min(std::max(a + 3, 0.0), 6.0) / 6; }, -5, 5},
    {"softplus_fwd", 1, [](double a, double, double) { return std::log1p(std::exp(a)); }},
    {"addcmul_fwd", 3, [](double a, double b, double c) { return a + b * c; }},
};

class ElementwiseTest : public testing::TestWithParam<std::tuple<ElementwiseCase, IsaLevel>> {};
INSTANTIATE_TEST_SUITE_P(All, ElementwiseTest,
                         testing::Combine(testing::ValuesIn(kElementwise),
                                          testing::ValuesIn(GraphIsaLevels())),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).guid) + "_v" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

TEST_P(ElementwiseTest, MatchesReference) {
  const auto& [test, isa] = GetParam();
  for (const synDataType type : {syn_type_float, syn_type_bf16}) {
    for (const Dims& sizes : {Dims{1}, Dims{13, 3}, Dims{8, 1, 5}}) {
      GraphBuilder b;
      std::vector<uint32_t> inputs;
      // The second operand is broadcast along the outermost dimension.
      Dims second = sizes;
      second.back() = 1;
      for (size_t i = 0; i < test.arity; ++i) {
        inputs.push_back(b.Persistent(i == 1 ? second : sizes, type));
      }
      const uint32_t out = b.Persistent(sizes, type);
      const std::string suffix = type == syn_type_float ? "_f32" : "_bf16";
      b.Node(test.guid + suffix, inputs, {out});
      GraphRun run(b.graph);
      std::vector<std::vector<float>> values(3, std::vector<float>(Elements(sizes), 0));
      for (size_t i = 0; i < test.arity; ++i) {
        const Dims& shape = i == 1 ? second : sizes;
        values[i] =
            Rounded(RandomFloats(Elements(shape), uint32_t(i + 1), test.low, test.high), type);
        SetFloats(run, inputs[i], type, values[i]);
      }
      const absl::Status status = run.Run(isa);
      ASSERT_TRUE(status.ok()) << status;
      std::vector<float> wanted;
      for (size_t i = 0; i < Elements(sizes); ++i) {
        wanted.push_back(static_cast<float>(
            test.reference(values[0][i], values[1][i % values[1].size()], values[2][i])));
      }
      ExpectNear(GetFloats(run, out, type), wanted, type == syn_type_float ? 2e-6 : 6e-3,
                 test.guid);
    }
  }
}

class ElementwiseGuidTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, ElementwiseGuidTest, testing::ValuesIn(GraphIsaLevels()));

TEST_P(ElementwiseGuidTest, ComparisonsAndSelection) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({19});
  const uint32_t y = b.Persistent({19});
  const uint32_t less = b.Persistent({19}, syn_type_int8);
  const uint32_t chosen = b.Persistent({19});
  b.Node("less_fwd_f32", {x, y}, {less});
  b.Node("where_fwd_f32", {less, x, y}, {chosen});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(19);
  const auto ys = RandomFloats(19, 2);
  run.Set(x, xs);
  run.Set(y, ys);
  RunOrFail(run);
  const auto mask = run.Get<int8_t>(less);
  const auto out = run.Get<float>(chosen);
  for (size_t i = 0; i < 19; ++i) {
    EXPECT_EQ(mask[i], xs[i] < ys[i] ? 1 : 0);
    EXPECT_EQ(out[i], std::min(xs[i], ys[i]));
  }
}

TEST_P(ElementwiseGuidTest, CastsAndIntegers) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({21});
  const uint32_t i32 = b.Persistent({21}, syn_type_int32);
  const uint32_t i8 = b.Persistent({21}, syn_type_int8);
  const uint32_t i64 = b.Persistent({21}, syn_type_int64);
  const uint32_t bf16 = b.Persistent({21}, syn_type_bf16);
  b.Node("cast_f32_to_i32", {x}, {i32});
  b.Node("cast_i32_to_i8", {i32}, {i8});
  b.Node("cast_i32_to_i64", {i32}, {i64});
  b.Node("cast_f32_to_bf16", {x}, {bf16});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(21, 1, -300, 300);
  run.Set(x, xs);
  RunOrFail(run);
  for (size_t i = 0; i < 21; ++i) {
    const auto whole = static_cast<int32_t>(xs[i]);
    EXPECT_EQ(run.Get<int32_t>(i32)[i], whole);
    EXPECT_EQ(run.Get<int8_t>(i8)[i], static_cast<int8_t>(whole));
    EXPECT_EQ(run.Get<int64_t>(i64)[i], whole);
    EXPECT_EQ(run.Get<uint16_t>(bf16)[i], ToBf16(xs[i]));
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
