// Checks which explicit roundings a product's epilogue leaves out, and that results keep the same
// bits.
#include "graph_compiler/fusion/round_once.h"

#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

constexpr auto kBF16 = static_cast<int64_t>(MemoryType::kBF16);

// The epilogue of a product, built op by op; op 0 is the sum of products.
class Epilogue {
 public:
  Epilogue() { Add(Opcode::kAccumulator, {}); }
  uint32_t Add(Opcode op, std::vector<uint32_t> args, double number = 0, int64_t imm = 0) {
    body_.ops.push_back({op, ScalarType::kF32, std::move(args), number, imm, {}});
    return static_cast<uint32_t>(body_.ops.size() - 1);
  }
  uint32_t Round(uint32_t x) { return Add(Opcode::kRoundTo, {x}, 0, kBF16); }
  uint32_t Number(double number) { return Add(Opcode::kConstF32, {}, number); }
  uint32_t Load(MemoryType type) {
    const uint32_t load = Add(Opcode::kLoad, {});
    body_.ops[load].access = {.operand = 0u, .type = type, .strides = {1, 1}};
    return load;
  }
  void Store(uint32_t value, MemoryType type) {
    body_.stores.push_back({value, {.operand = 1u, .type = type, .strides = {1, 1}}});
  }
  // Returns how many roundings are left in a product's body, and in a map's.
  std::pair<int, int> Left() const {
    LoopGraph graph;
    graph.nodes.resize(2);
    graph.nodes[0].kind = Gemm{};
    for (Node& node : graph.nodes) node.body = body_;
    RoundOnce(graph);
    const auto count = [](const Node& node) {
      return static_cast<int>(
          std::count_if(node.body.ops.begin(), node.body.ops.end(),
                        [](const BodyOp& op) { return op.op == Opcode::kRoundTo; }));
    };
    return {count(graph.nodes[0]), count(graph.nodes[1])};
  }

 private:
  Body body_;
};

using Counts = std::pair<int, int>;

TEST(RoundOnceTest, LimitsCommuteWithRounding) {
  Epilogue e;
  const uint32_t low = e.Add(Opcode::kMax, {e.Round(0), e.Number(0)});
  e.Store(e.Add(Opcode::kMin, {low, e.Number(6)}), MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(0, 1));
}

TEST(RoundOnceTest, BothSidesOfAMaximum) {
  Epilogue e;
  const uint32_t other = e.Round(e.Add(Opcode::kNeg, {0}));
  e.Store(e.Add(Opcode::kMax, {e.Round(0), other}), MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(0, 2));
}

TEST(RoundOnceTest, RoundedTwiceOrBeforeTheStore) {
  Epilogue e;
  e.Store(e.Round(e.Add(Opcode::kAbs, {e.Round(0)})), MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(0, 2));
}

TEST(RoundOnceTest, ALimitOfAnotherTypeDoesNot) {
  Epilogue e;  // 0.1 is not a bf16: a value rounded up to it and one below it would change places
  e.Store(e.Add(Opcode::kMin, {e.Round(0), e.Number(0.1)}), MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(1, 1));
}

TEST(RoundOnceTest, LoadsByTheirType) {
  for (const auto type : {MemoryType::kBF16, MemoryType::kF32}) {
    Epilogue e;
    e.Store(e.Add(Opcode::kMax, {e.Round(0), e.Load(type)}), MemoryType::kBF16);
    EXPECT_EQ(e.Left().first, type == MemoryType::kBF16 ? 0 : 1);
  }
}

TEST(RoundOnceTest, SumsTakeWhatWasRounded) {
  Epilogue e;
  const uint32_t sum = e.Add(Opcode::kAdd, {e.Round(0), e.Load(MemoryType::kBF16)});
  e.Store(sum, MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(1, 1));
}

TEST(RoundOnceTest, AWiderStoreSeesTheRounding) {
  Epilogue e;
  const uint32_t rounded = e.Round(0);
  e.Store(rounded, MemoryType::kBF16);
  e.Store(rounded, MemoryType::kF32);
  EXPECT_EQ(e.Left(), Counts(1, 1));
}

// Each of these has two readers, so an algorithm that follows every path from the first one never
// ends.
TEST(RoundOnceTest, ManyWaysToTheStore) {
  Epilogue e;
  uint32_t value = e.Round(0);
  for (int i = 0; i < 100; ++i) value = e.Add(Opcode::kMax, {value, e.Add(Opcode::kNeg, {value})});
  e.Store(value, MemoryType::kBF16);
  EXPECT_EQ(e.Left(), Counts(0, 1));
}

float RoundToBF16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}

// Sums are exact (few small integers), so each bit of the result is known.
class RoundOnceRunTest : public testing::TestWithParam<IsaLevel> {};
std::vector<IsaLevel> LevelsWithPairs() {
  std::vector<IsaLevel> levels = GraphIsaLevels();
  if (__builtin_cpu_supports("avx512bf16")) levels.push_back(IsaLevel::kV4Bf16);
  return levels;
}
INSTANTIATE_TEST_SUITE_P(Isa, RoundOnceRunTest, testing::ValuesIn(LevelsWithPairs()));

TEST_P(RoundOnceRunTest, ScaleShiftAndLimitsRoundAsStepByStep) {
  for (const uint64_t n : {7, 24, 48, 70}) {  // columns: part of one panel, whole panels, and both
    constexpr uint64_t kRows = 37, kDepth = 16;
    GraphBuilder b;
    const uint32_t x = b.Persistent({kDepth, kRows}, syn_type_bf16);
    const uint32_t w = b.Persistent({n, kDepth}, syn_type_bf16);
    const uint32_t scale = b.Persistent({n, 1}), shift = b.Persistent({n, 1});
    const uint32_t out = b.Persistent({n, kRows}, syn_type_bf16);
    const uint32_t product = b.Temporary({n, kRows}, syn_type_bf16), wide = b.Temporary({n, kRows});
    const uint32_t scaled = b.Temporary({n, kRows}), moved = b.Temporary({n, kRows});
    const uint32_t narrow = b.Temporary({n, kRows}, syn_type_bf16);
    const uint32_t low = b.Temporary({n, kRows}, syn_type_bf16);
    b.Node("gemm", {x, w}, {product}, synGEMMParams{false, false});
    b.Node("cast_bf16_to_f32", {product}, {wide});
    b.Node("mult_fwd_f32", {wide, scale}, {scaled});
    b.Node("add_fwd_f32", {scaled, shift}, {moved});
    b.Node("cast_f32_to_bf16", {moved}, {narrow});
    const auto number = [&](float value) {
      const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      return b.Constant<uint16_t>({1, 1}, syn_type_bf16, {bits});
    };
    b.Node("max_fwd_bf16", {narrow, number(0)}, {low});
    b.Node("min_fwd_bf16", {low, number(6)}, {out});
    GraphRun run(b.graph);
    const auto integers = [](size_t count, uint32_t seed) {
      std::vector<float> values = RandomFloats(count, seed, -4, 4);
      for (float& value : values) value = std::round(value);
      return values;
    };
    const auto upper = [](const std::vector<float>& values) {
      std::vector<uint16_t> halves;
      for (const float value : values) {
        halves.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
      }
      return halves;
    };
    const auto xs = integers(kRows * kDepth, 1), ws = integers(kDepth * n, 2);
    const auto scales = RandomFloats(n, 3, 0.01F, 0.2F), shifts = RandomFloats(n, 4);
    run.Set(x, upper(xs));
    run.Set(w, upper(ws));
    run.Set(scale, scales);
    run.Set(shift, shifts);
    ASSERT_TRUE(run.Run(GetParam()).ok());
    const auto result = run.Get<uint16_t>(out);
    int inside = 0;
    for (uint64_t r = 0; r < kRows; ++r) {
      for (uint64_t c = 0; c < n; ++c) {
        float sum = 0;
        for (uint64_t k = 0; k < kDepth; ++k) sum += xs[r * kDepth + k] * ws[k * n + c];
        volatile float scaled_sum = sum * scales[c];  // rounded before the addition
        const float wanted = std::clamp(RoundToBF16(scaled_sum + shifts[c]), 0.0F, 6.0F);
        const float got = std::bit_cast<float>(static_cast<uint32_t>(result[r * n + c]) << 16);
        EXPECT_EQ(got, wanted) << n << " columns, row " << r << ", column " << c;
        inside += wanted > 0 && wanted < 6;
      }
    }
    EXPECT_GT(inside, static_cast<int>(kRows * n / 4));
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
