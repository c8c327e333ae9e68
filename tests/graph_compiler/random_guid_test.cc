// Compares philox_uniform with base/philox.h: for every instruction set, in tiles, in rows that
// begin inside a block, and fused with the node that reads it.
#include "base/philox.h"
#include "synapse/include/synapse_emulator.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

constexpr uint64_t kSeed = 0x0123456789abcdef;
constexpr uint64_t kOffset = 0xfffffffe;  // the low half of the counter overflows in every draw
constexpr synEmulatorPhiloxParams kBase = {.baseLow = 7, .baseHigh = 1};

float Expected(size_t i) {
  const uint64_t block = kOffset + (uint64_t{1} << 32) + 7 + i / 4;
  return UniformFromBits(PhiloxBlockOf(kSeed, block)[i % 4]);
}

struct State {
  explicit State(GraphBuilder& g)
      : seed(g.Persistent({1}, syn_type_int64)), offset(g.Persistent({1}, syn_type_int64)) {}
  void Set(GraphRun& run) const {
    run.Set(seed, std::vector<uint64_t>{kSeed});
    run.Set(offset, std::vector<uint64_t>{kOffset});
  }
  uint32_t seed;
  uint32_t offset;
};

class PhiloxUniform : public ::testing::TestWithParam<Dims> {};

TEST_P(PhiloxUniform, EveryElementIsThatOfItsPlace) {
  for (const IsaLevel isa : GraphIsaLevels()) {
    for (const uint64_t piece : {uint64_t{0}, uint64_t{1}}) {
      GraphBuilder g;
      const State state(g);
      const uint32_t out = g.Persistent(GetParam());
      g.Node("philox_uniform_fwd_f32", {state.seed, state.offset}, {out}, kBase);
      GraphRun run(g.graph);
      state.Set(run);
      ASSERT_TRUE(run.Run(isa, piece).ok());
      const std::vector<float> numbers = run.Get<float>(out);
      for (size_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(numbers[i], Expected(i)) << "element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PhiloxUniform,
                         ::testing::Values(Dims{1}, Dims{3}, Dims{16}, Dims{63}, Dims{1000},
                                           Dims{6, 5}, Dims{33, 7}, Dims{64, 9, 2}, Dims{50000}));

// Rows of 30 begin at element 30 r; the transposed read takes elements that are 30 apart.
TEST(PhiloxUniformFused, MaskTransposedAndBroadcast) {
  for (const IsaLevel isa : GraphIsaLevels()) {
    GraphBuilder g;
    const State state(g);
    const uint32_t x = g.Persistent({30, 20});
    const uint32_t numbers = g.Temporary({30, 20});
    const uint32_t turned = g.Temporary({20, 30});
    const uint32_t sum = g.Persistent({30, 20});
    const uint32_t out = g.Persistent({20, 30});
    g.Node("philox_uniform_fwd_f32", {state.seed, state.offset}, {numbers}, kBase);
    g.Node("add_fwd_f32", {x, numbers}, {sum});
    const synTransposeParams order{{1, 0, 0, 0, 0}, 2};
    g.Node("transpose", {numbers}, {turned}, order);
    g.Node("add_fwd_f32", {turned, turned}, {out});
    GraphRun run(g.graph);
    state.Set(run);
    std::vector<float> values(600);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    run.Set(x, values);
    ASSERT_TRUE(run.Run(isa).ok());
    const std::vector<float> sums = run.Get<float>(sum);
    const std::vector<float> doubled = run.Get<float>(out);
    for (size_t r = 0; r < 20; ++r) {
      for (size_t c = 0; c < 30; ++c) {
        const size_t i = r * 30 + c;
        ASSERT_EQ(sums[i], values[i] + Expected(i)) << "element " << i;
        ASSERT_EQ(doubled[c * 20 + r], 2 * Expected(i)) << "element " << i;
      }
    }
  }
}

TEST(PhiloxUniformFused, ARefusedState) {
  GraphBuilder g;
  const uint32_t seed = g.Persistent({1}, syn_type_int32);
  const uint32_t out = g.Persistent({4});
  g.Node("philox_uniform_fwd_f32", {seed, seed}, {out}, kBase);
  EXPECT_FALSE(CheckGraph(g.graph).ok());
}

}  // namespace
}  // namespace hpu::graph_compiler
