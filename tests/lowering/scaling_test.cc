// Passes and lowering must take time that is nearly linear in the graph: ten times the nodes may
// take little more than ten times the time. The graphs have everything that is looked up by name,
// region or value: many inputs, views, results that are returned, writes to inputs, and eager ops
// between recipes.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "compiler_server/ir/text.h"
#include "compiler_server/lowering/lower.h"
#include "compiler_server/lowering/lower_graph.h"
#include "compiler_server/passes/pipeline.h"
#include "tests/lowering/recording_synapse.h"

namespace hpu::compiler {
namespace {

constexpr int kNodesPerLayer = 5;

// `eager_every`: every layer with this distance has an op that no recipe holds; 0 = none.
std::string Layers(int layers, int eager_every) {
  std::string inputs = "%x: f32[8,8]", body, returned;
  std::string last = "%x";
  for (int i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i), v = "%v" + n + "_";
    inputs += ", %w" + n + ": f32[8,8], %b" + n + ": f32[8], %m" + n + ": f32[8,8]";
    const bool eager = eager_every > 0 && i % eager_every == 0;
    body += "  " + v + "0 = matmul " + last + ", %w" + n + " : f32[8,8]\n";
    body += "  " + v + "1 = add " + v + "0, %b" + n + " : f32[8,8]\n";
    body += eager ? "  " + v + "2 = aten \"aten.lgamma.default\"(self = " + v + "1) : f32[8,8]\n"
                  : "  " + v + "2 = relu " + v + "1 : f32[8,8]\n";
    body += "  " + v + "3 = permute " + v + "2 {perm = [1,0]} : f32[8,8]\n";
    body += "  " + v + "4 = mul " + v + "3, %m" + n + " : f32[8,8]\n";
    body += "  mutate %m" + n + " = " + v + "2\n";
    last = v + "4";
    returned += (i == 0 ? "" : ", ") + v + "1";
  }
  // Writes come after all nodes.
  std::string nodes, writes;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at) + 1;
    const std::string line = body.substr(at, end - at);
    (line.starts_with("  mutate") ? writes : nodes) += line;
    at = end;
  }
  return "graph @layers(" + inputs + ") {\n" + nodes + writes + "  return " + returned + "\n}\n";
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Times {
  double passes = 1e9;
  double lowering = 1e9;
};

// The time of the fastest of `rounds`.
Times Measure(int nodes, int eager_every, int rounds) {
  Times best;
  const std::string text = Layers(nodes / kNodesPerLayer, eager_every);
  for (int round = 0; round < rounds; ++round) {
    absl::StatusOr<ir::Graph> graph = ir::Parse(text);
    EXPECT_TRUE(graph.ok()) << ToText(graph.status());
    if (!graph.ok()) return best;
    const double start = CpuSeconds();
    const absl::Status status = RunPipeline(*graph, {.accept = CheckLowerable}, {.verify = true});
    EXPECT_TRUE(status.ok()) << ToText(status);
    const double between = CpuSeconds();
    LoweredProgram program;
    const absl::Status lowered =
        LowerGraph(*graph, hpu::testing::RecordingSynapse(), {}, "forward", &program);
    EXPECT_TRUE(lowered.ok()) << ToText(lowered);
    const double end = CpuSeconds();
    hpu::testing::TakeRecordedCalls();
    best.passes = std::min(best.passes, between - start);
    best.lowering = std::min(best.lowering, end - between);
  }
  return best;
}

void ExpectNearLinear(int eager_every) {
  const Times small = Measure(5000, eager_every, 3);
  const Times large = Measure(50000, eager_every, 2);
  // Quadratic time would give 100 and more. Allocators and caches add to 10, because the small
  // graph fits into the caches. A linear search per binding in the lowering gave 50.
  EXPECT_LT(large.passes / small.passes, 60) << large.passes << " s, " << small.passes;
  EXPECT_LT(large.lowering / small.lowering, 30) << large.lowering << " s, " << small.lowering;
  ::testing::Test::RecordProperty("passes_ratio", std::to_string(large.passes / small.passes));
  ::testing::Test::RecordProperty("lowering_ratio",
                                  std::to_string(large.lowering / small.lowering));
  ::testing::Test::RecordProperty(
      "seconds", std::to_string(large.passes) + " " + std::to_string(large.lowering));
}

TEST(Scaling, OneRecipe) { ExpectNearLinear(0); }
TEST(Scaling, ManyRecipes) { ExpectNearLinear(20); }

}  // namespace
}  // namespace hpu::compiler
