// Error bounds of codegen/math.h against long double libm, over samples of the whole range.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/graph_compiler/kernel_runner.h"

namespace hpu::emulator {
namespace {

using Reference = long double (*)(long double);

struct MathCase {
  const char* name;
  Opcode op;
  Reference reference;
  double max_ulp;
};

long double Sigmoid(long double x) { return 1 / (1 + expl(-x)); }
long double Rsqrt(long double x) { return 1 / sqrtl(x); }
long double Reciprocal(long double x) { return 1 / x; }

const MathCase kCases[] = {
    {"exp", Opcode::kExp, expl, 1.0},        {"expm1", Opcode::kExpm1, expm1l, 2.0},
    {"log", Opcode::kLog, logl, 1.0},        {"tanh", Opcode::kTanh, tanhl, 2.0},
    {"erf", Opcode::kErf, erfl, 2.0},        {"sigmoid", Opcode::kSigmoid, Sigmoid, 2.5},
    {"rsqrt", Opcode::kRsqrt, Rsqrt, 1.5},   {"reciprocal", Opcode::kReciprocal, Reciprocal, 0.501},
    {"sqrt", Opcode::kSqrt, sqrtl, 0.501},   {"log1p", Opcode::kLog1p, log1pl, 0.51},
    {"log2", Opcode::kLog2, log2l, 0.51},    {"log10", Opcode::kLog10, log10l, 0.51},
    {"sin", Opcode::kSin, sinl, 0.51},       {"cos", Opcode::kCos, cosl, 0.51},
    {"tan", Opcode::kTan, tanl, 0.51},       {"asin", Opcode::kAsin, asinl, 0.51},
    {"acos", Opcode::kAcos, acosl, 0.51},    {"atan", Opcode::kAtan, atanl, 0.51},
    {"sinh", Opcode::kSinh, sinhl, 0.51},    {"cosh", Opcode::kCosh, coshl, 0.51},
    {"asinh", Opcode::kAsinh, asinhl, 0.51}, {"acosh", Opcode::kAcosh, acoshl, 0.51},
    {"atanh", Opcode::kAtanh, atanhl, 0.51},
};

std::vector<float> Samples() {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> samples = {0.0f,
                                -0.0f,
                                infinity,
                                -infinity,
                                std::numeric_limits<float>::quiet_NaN(),
                                1.0f,
                                -1.0f,
                                0.5f,
                                1e-45f,
                                -1e-45f,
                                1.17549435e-38f,
                                3.4e38f,
                                -3.4e38f,
                                88.72283f,
                                88.72284f,
                                -87.33655f,
                                -103.97f,
                                -104.5f,
                                1.5707964f,
                                16367173.0f};
  // Every 2^16-th bit pattern with a varying low half covers all exponents and signs.
  std::mt19937 random(7);
  for (uint32_t high = 0; high < 0x10000; ++high) {
    const uint32_t bits = high << 16 | (random() & 0xffff);
    float value;
    std::memcpy(&value, &bits, 4);
    samples.push_back(value);
  }
  std::uniform_real_distribution<float> near(-20.0f, 20.0f);
  for (int i = 0; i < 60000; ++i) samples.push_back(near(random));
  std::uniform_real_distribution<float> unit(-1.1f, 1.1f);
  for (int i = 0; i < 40000; ++i) samples.push_back(unit(random));
  return samples;
}

// Distance in units in the last place of the f32 nearest to `exact`.
double UlpError(float got, long double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(rounded) || std::isnan(got))
    return std::isnan(rounded) == std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || std::isinf(got)) {
    if (rounded == got) return 0;
    // Just below the overflow threshold either answer is within the bound.
    return fabsl(exact) > 3.40282e38L ? 1 : 1e9;
  }
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(rounded) ? 0 : 1e9;
  int exponent = 0;
  frexpl(exact, &exponent);
  const long double ulp = ldexpl(1, std::max(exponent - 24, -149));
  return static_cast<double>(fabsl(got - exact) / ulp);
}

class MathTest : public testing::TestWithParam<std::tuple<MathCase, IsaLevel>> {};

TEST_P(MathTest, ErrorWithinBound) {
  const auto& [test, isa] = GetParam();
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  AddStore(body, AddOp(body, test.op, ScalarType::kF32, {x}), 1, MemoryType::kF32);
  const BodyRunner runner(isa, body, 2);
  std::vector<float> in = Samples();
  std::vector<float> out(in.size());
  int64_t count = static_cast<int64_t>(in.size());
  runner.Run({in.data(), out.data(), &count});
  double worst = 0;
  float worst_at = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    const double error = UlpError(out[i], test.reference(in[i]));
    if (error > worst) {
      worst = error;
      worst_at = in[i];
    }
  }
  EXPECT_LE(worst, test.max_ulp) << test.name << "(" << worst_at << ")";
}

INSTANTIATE_TEST_SUITE_P(All, MathTest,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::ValuesIn(RunnableIsaLevels())),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_v" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

struct BinaryCase {
  const char* name;
  Opcode op;
  long double (*reference)(long double, long double);
  double max_ulp;
};
long double FloorMod(long double x, long double y) {
  const long double rest = fmodl(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? static_cast<float>(rest + y) : rest;
}
const BinaryCase kBinaryCases[] = {
    {"pow", Opcode::kPow, powl, 0.51},
    {"atan2", Opcode::kAtan2, atan2l, 0.51},
    {"fmod", Opcode::kRem, fmodl, 0},
    {"floormod", Opcode::kFloorMod, FloorMod, 0},
};

class BinaryMathTest : public testing::TestWithParam<std::tuple<BinaryCase, IsaLevel>> {};

TEST_P(BinaryMathTest, ErrorWithinBound) {
  const auto& [test, isa] = GetParam();
  Body body;
  const uint32_t x = AddLoad(body, 0, MemoryType::kF32);
  const uint32_t y = AddLoad(body, 1, MemoryType::kF32);
  AddStore(body, AddOp(body, test.op, ScalarType::kF32, {x, y}), 2, MemoryType::kF32);
  const BodyRunner runner(isa, body, 3);
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0f,   -0.0f, 1.0f,        -1.0f, infinity, -infinity,
                                      NAN,    0.5f,  -0.5f,       2.0f,  3.0f,     -3.0f,
                                      1e-40f, 3e38f, 16777217.0f, 7.5f};
  std::vector<float> left;
  std::vector<float> right;
  for (const float a : special) {
    for (const float b : special) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  std::mt19937 random(11);
  std::uniform_real_distribution<float> value(-30.0f, 30.0f);
  for (int i = 0; i < 50000; ++i) {
    left.push_back(i % 2 == 0 ? value(random) : std::exp(value(random)));
    right.push_back(i % 3 == 0 ? std::round(value(random)) : value(random));
  }
  std::vector<float> out(left.size());
  int64_t count = static_cast<int64_t>(left.size());
  runner.Run({left.data(), right.data(), out.data(), &count});
  for (size_t i = 0; i < left.size(); ++i) {
    if (test.op == Opcode::kFloorMod && (std::isinf(right[i]) || std::isinf(left[i]))) continue;
    const double error = UlpError(out[i], test.reference(left[i], right[i]));
    ASSERT_LE(error, test.max_ulp)
        << test.name << "(" << left[i] << ", " << right[i] << ") = " << out[i] << ", exact "
        << static_cast<double>(test.reference(left[i], right[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BinaryMathTest,
                         testing::Combine(testing::ValuesIn(kBinaryCases),
                                          testing::ValuesIn(RunnableIsaLevels())),
                         [](const auto& param) {
                           return std::string(std::get<0>(param.param).name) + "_v" +
                                  std::to_string(static_cast<int>(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace hpu::emulator
