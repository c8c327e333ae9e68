// Compares every function of docs/numerics.md with glibc's double functions, whose own error is
// below 1e-8 units of f32. By default it takes a subset of f32 that is dense around special values;
// ACCURACY_ALL=1 (the slow test) takes all 2^32 values. Narrow types are always covered completely.
#include "tests/graph_compiler/accuracy.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

constexpr size_t kBlock = size_t{1} << 20;

bool AllInputs() { return std::getenv("ACCURACY_ALL") != nullptr; }

// Runs one node over blocks of kBlock elements; it is compiled once.
class NodeRunner {
 public:
  NodeRunner(const Function& function, synDataType type, const std::string& suffix, IsaLevel isa) {
    for (int i = 0; i < function.arity; ++i) inputs_.push_back(builder_.Persistent({kBlock}, type));
    output_ = builder_.Persistent({kBlock}, type);
    builder_.Node(function.guid + suffix, inputs_, {output_});
    builder_.graph.nodes.back().params = function.params;
    run_ = std::make_unique<GraphRun>(builder_.graph);
    status_ = run_->Compile(isa);
  }
  const absl::Status& status() const { return status_; }

  template <typename T>
  std::vector<T> operator()(const std::vector<std::vector<T>>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) run_->Set(inputs_[i], inputs[i]);
    run_->Execute(0);
    return run_->Get<T>(output_);
  }

 private:
  GraphBuilder builder_;
  std::vector<uint32_t> inputs_;
  uint32_t output_ = 0;
  std::unique_ptr<GraphRun> run_;
  absl::Status status_;
};

struct Worst {
  double error = 0;
  double x = 0;
  double y = 0;
  double got = 0;
  double exact = 0;
};
std::ostream& operator<<(std::ostream& out, const Worst& worst) {
  const auto precision = out.precision(9);
  out << worst.error << " ulp at (" << worst.x << ", " << worst.y << "): " << worst.got
      << " instead of " << worst.exact;
  out.precision(precision);
  return out;
}

void Note(Worst& worst, const Function& function, double x, double y, double got,
          const FloatFormat& format) {
  const double exact = function.exact(x, y);
  // The result is rounded correctly, so an error of more than half a unit is not noted.
  if (format.precision == kFloat.precision && worst.error >= 0.5 && exact != 0 &&
      got == static_cast<float>(exact)) {
    return;
  }
  double unit = std::fabs(exact);
  if (function.unit == ErrorUnit::kInput) unit = std::max(unit, std::fabs(x));
  if (function.unit == ErrorUnit::kGated) {
    unit = std::max(unit, std::ldexp(std::fabs(x), format.min_exponent));
  }
  const double error = UlpError(got, exact, unit, format);
  if (error > worst.error) worst = {error, x, y, got, exact};
}

// Returns 0, the ends of the denormal, normal and finite ranges, every power of two, zeros of the
// trigonometric functions, and the points where the kernels change their formula.
std::vector<float> SpecialPoints() {
  std::vector<float> points = {
      0.0f,     0.2f,     0.35f,      0.5f,       0.625f,      0.69314718f,  0.95f,    1.0f,
      1.41421f, 2.4142f,  3.0f,       4.0f,       5.4f,        9.0f,         10.0f,    13.0f,
      14.0f,    16.6f,    16.635532f, 17.3f,      20.0f,       30.0f,        43.6f,    87.3365f,
      88.3763f, 88.7228f, 89.0f,      89.4159f,   103.279f,    103.972f,     104.0f,   105.0f,
      300.0f,   1e4f,     1048576.0f, 8388608.0f, 16367173.0f, 3.402823e38f, HUGE_VALF};
  for (uint32_t exponent = 0; exponent < 255; ++exponent)
    points.push_back(FromBits(exponent << 23));
  for (int i = 1; i <= 64; ++i) points.push_back(static_cast<float>(i * M_PI_2));
  return points;
}

std::vector<float> Subset() {
  std::vector<float> values;
  constexpr uint32_t kStride = 4099;  // a prime, so that the low bits take all values
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kStride) {
    values.push_back(FromBits(static_cast<uint32_t>(bits)));
  }
  constexpr int kReach = 64;
  for (const float point : SpecialPoints()) {
    const auto center = static_cast<int64_t>(ToBits(point));
    for (int64_t bits = std::max<int64_t>(center - kReach, 0); bits <= center + kReach; ++bits) {
      values.push_back(FromBits(static_cast<uint32_t>(bits)));
      values.push_back(FromBits(static_cast<uint32_t>(bits) | 0x80000000u));
    }
  }
  return values;
}

// Returns the levels that differ in arithmetic: v2 has no fused multiply-add, while v3 and above
// agree bit by bit (EveryLevelWithFmaGivesTheSameBits checks that).
std::vector<IsaLevel> ArithmeticLevels() {
  const std::vector<IsaLevel> levels = GraphIsaLevels();
  if (levels.size() == 1) return levels;
  return {levels.front(), levels.back()};
}

class AccuracyTest : public testing::TestWithParam<Function> {
 protected:
  // Returns -1 if the document has no row for the function (in that type).
  double Bound(const std::string& type = "") const {
    static const auto* const bounds = new std::map<std::string, double>(DocumentedBounds());
    const auto row = bounds->find(GetParam().name + type);
    return row == bounds->end() ? -1 : row->second;
  }
};
INSTANTIATE_TEST_SUITE_P(All, AccuracyTest, testing::ValuesIn(BoundedFunctions()),
                         [](const auto& param) { return std::string(param.param.name); });

// Returns blocks of inputs; the last one is filled up with its last element.
std::vector<std::vector<float>> Blocks(const std::vector<float>& values) {
  std::vector<std::vector<float>> blocks;
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, values.size());
    blocks.emplace_back(values.begin() + static_cast<int64_t>(begin),
                        values.begin() + static_cast<int64_t>(end));
    blocks.back().resize(kBlock, blocks.back().back());
  }
  return blocks;
}

// Returns the pairs that matter: all pairs of special values, random bit patterns, and pairs with a
// result of ordinary size.
std::vector<std::vector<float>> PairBlock(uint32_t seed) {
  std::vector<std::vector<float>> block(2);
  const std::vector<float> special = {
      0.0f,  -0.0f, 1.0f,   -1.0f,  HUGE_VALF, -HUGE_VALF, NAN,     0.5f,        -0.5f,
      2.0f,  3.0f,  -3.0f,  1e-40f, -1e-45f,   3e38f,      -3e38f,  16777217.0f, 7.5f,
      -2.5f, 1.5f,  1e-38f, 0.999f, 1.0001f,   127.0f,     -149.0f, 33554432.0f, 0.1f};
  for (const float x : special) {
    for (const float y : special) {
      block[0].push_back(x);
      block[1].push_back(y);
    }
  }
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> ordinary(-30.0f, 30.0f);
  std::uniform_real_distribution<float> logarithm(-87.0f, 88.0f);
  while (block[0].size() < kBlock) {
    const float x = std::exp(logarithm(random));
    switch (block[0].size() % 4) {
      case 0:
        block[0].push_back(FromBits(static_cast<uint32_t>(random())));
        block[1].push_back(FromBits(static_cast<uint32_t>(random())));
        break;
      case 1:
        block[0].push_back(ordinary(random));
        block[1].push_back(std::round(ordinary(random)));
        break;
      case 2:
        block[0].push_back(x);
        block[1].push_back(logarithm(random) / std::log(x));
        break;
      default:
        block[0].push_back(x);
        block[1].push_back(x * ordinary(random));
    }
  }
  return block;
}

Worst CheckPairs(const Function& function, NodeRunner& run, uint32_t seed) {
  Worst worst;
  const std::vector<std::vector<float>> in = PairBlock(seed);
  const std::vector<float> out = run(in);
  for (size_t i = 0; i < kBlock; ++i) Note(worst, function, in[0][i], in[1][i], out[i], kFloat);
  return worst;
}

Worst CheckSubset(const Function& function, NodeRunner& run) {
  static const auto* const blocks = new std::vector<std::vector<float>>(Blocks(Subset()));
  Worst worst;
  for (const std::vector<float>& in : *blocks) {
    const std::vector<float> out = run(std::vector<std::vector<float>>{in});
    for (size_t i = 0; i < kBlock; ++i) Note(worst, function, in[i], 0, out[i], kFloat);
  }
  return worst;
}

// Checks all blocks with number % step == first.
Worst CheckAll(const Function& function, NodeRunner& run, uint32_t first, uint32_t step) {
  Worst worst;
  std::vector<std::vector<float>> in(1, std::vector<float>(kBlock));
  for (uint64_t block = first; block < (uint64_t{1} << 32) / kBlock; block += step) {
    for (size_t i = 0; i < kBlock; ++i) {
      in[0][i] = FromBits(static_cast<uint32_t>(block * kBlock + i));
    }
    const std::vector<float> out = run(in);
    for (size_t i = 0; i < kBlock; ++i) Note(worst, function, in[0][i], 0, out[i], kFloat);
  }
  return worst;
}

Worst CheckEverywhere(const Function& function, IsaLevel isa) {
  const uint32_t threads = std::max(std::thread::hardware_concurrency(), 1u);
  std::vector<Worst> results(threads);
  std::vector<std::thread> workers;
  for (uint32_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      NodeRunner run(function, syn_type_float, "_f32", isa);
      if (function.arity == 1) {
        results[i] = CheckAll(function, run, i, threads);
        return;
      }
      for (uint32_t seed = i; seed < 256; seed += threads) {
        const Worst worst = CheckPairs(function, run, seed);
        if (worst.error > results[i].error) results[i] = worst;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  return *std::max_element(results.begin(), results.end(),
                           [](const Worst& a, const Worst& b) { return a.error < b.error; });
}

TEST_P(AccuracyTest, Float32IsWithinTheDocumentedBound) {
  const Function& function = GetParam();
  for (const IsaLevel isa : ArithmeticLevels()) {
    NodeRunner run(function, syn_type_float, "_f32", isa);
    ASSERT_TRUE(run.status().ok()) << run.status();
    Worst worst;
    if (AllInputs()) {
      worst = CheckEverywhere(function, isa);
    } else {
      worst = function.arity == 1 ? CheckSubset(function, run) : CheckPairs(function, run, 1);
    }
    RecordProperty("ulp_v" + std::to_string(static_cast<int>(isa)), std::to_string(worst.error));
    EXPECT_LE(worst.error, Bound())
        << function.name << " at level v" << static_cast<int>(isa) << ": " << worst;
  }
}

TEST_P(AccuracyTest, EveryLevelWithFmaGivesTheSameBits) {
  if (AllInputs()) GTEST_SKIP() << "the subset is enough";
  const Function& function = GetParam();
  std::vector<IsaLevel> levels = GraphIsaLevels();
  levels.erase(levels.begin());
  if (levels.size() < 2) GTEST_SKIP() << "this CPU has one level with fused multiply-add or none";
  const std::vector<std::vector<float>> in =
      function.arity == 2 ? PairBlock(2) : std::vector<std::vector<float>>{Blocks(Subset())[0]};
  std::vector<std::vector<float>> results;
  for (const IsaLevel isa : levels) {
    NodeRunner run(function, syn_type_float, "_f32", isa);
    ASSERT_TRUE(run.status().ok()) << run.status();
    results.push_back(run(in));
  }
  for (size_t i = 0; i < kBlock; ++i) {
    if (std::isnan(results.front()[i]) && std::isnan(results.back()[i])) continue;
    ASSERT_EQ(ToBits(results.front()[i]), ToBits(results.back()[i]))
        << function.name << "(" << in[0][i] << ")";
  }
}

struct NarrowType {
  synDataType type;
  const char* suffix;
  FloatFormat format;
};
const NarrowType kNarrowTypes[] = {{syn_type_bf16, "_bf16", kBfloat},
                                   {syn_type_fp16, "_f16", kHalf}};

double Decode(uint16_t bits, const FloatFormat& format) {
  const int mantissa_bits = format.precision - 1;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  double value = 0;
  if (exponent > format.max_exponent - format.min_exponent + 1) {
    value = mantissa != 0 ? NAN : HUGE_VAL;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, format.min_exponent - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits),
                       exponent - 1 + format.min_exponent - mantissa_bits);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

// The bound is f32 arithmetic and one rounding, that is, half a unit plus the error of f32, or the
// type's own row.
TEST_P(AccuracyTest, NarrowTypesRoundOnce) {
  if (AllInputs()) GTEST_SKIP() << "covered whole by the default test";
  const Function& function = GetParam();
  if (function.arity != 1) GTEST_SKIP() << "unary functions only";
  std::vector<std::vector<uint16_t>> in(1);
  for (size_t i = 0; i < kBlock; ++i) in[0].push_back(static_cast<uint16_t>(i));
  for (const NarrowType& narrow : kNarrowTypes) {
    for (const IsaLevel isa : ArithmeticLevels()) {
      NodeRunner run(function, narrow.type, narrow.suffix, isa);
      ASSERT_TRUE(run.status().ok()) << run.status();
      const std::vector<uint16_t> out = run(in);
      Worst worst;
      for (size_t i = 0; i < 0x10000; ++i) {
        Note(worst, function, Decode(in[0][i], narrow.format), 0, Decode(out[i], narrow.format),
             narrow.format);
      }
      const double f32_share = std::ldexp(Bound(), narrow.format.precision - kFloat.precision);
      const double own = Bound(narrow.suffix);
      EXPECT_LE(worst.error, own < 0 ? 0.5 + f32_share : own)
          << function.name << narrow.suffix << " at level v" << static_cast<int>(isa) << ": "
          << worst;
    }
  }
}

TEST(AccuracyTable, NamesTheFunctionsThatAreTested) {
  std::map<std::string, double> bounds = DocumentedBounds();
  for (const Function& function : BoundedFunctions()) {
    bounds.erase(function.name);
    for (const NarrowType& narrow : kNarrowTypes)
      bounds.erase(function.name + std::string(narrow.suffix));
  }
  for (const auto& [name, bound] : bounds) {
    ADD_FAILURE() << "docs/numerics.md bounds " << name << ", which is not tested";
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
