// Tests reductions that are cut in pieces or share a pass over their input.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class ReductionTest : public testing::TestWithParam<IsaLevel> {};
INSTANTIATE_TEST_SUITE_P(Isa, ReductionTest, testing::ValuesIn(GraphIsaLevels()));

void AddReduction(GraphBuilder& b, const std::string& kind, uint32_t x, uint32_t out,
                  uint32_t dim_mask) {
  b.Node("reduce_" + kind + "_multi_dim_fwd_f32", {x}, {out}, ns_Reduction_ParamsV2{dim_mask, 1});
}

// The errors of additions one after the other would be a thousandth of the sum of equal numbers.
TEST_P(ReductionTest, SumsOfLongRowsAreAddedInPieces) {
  constexpr uint64_t kRow = uint64_t{1} << 23;
  for (const uint64_t rows : {1u, 9u}) {  // nine rows are enough tasks without pieces
    GraphBuilder b;
    const uint32_t x = b.Persistent({kRow, rows});
    const uint32_t sum = b.Persistent({1, rows});
    AddReduction(b, "sum", x, sum, 1);
    GraphRun run(b.graph);
    run.Set(x, std::vector<float>(kRow * rows, 0.1f));
    const absl::Status status = run.Run(GetParam());
    ASSERT_TRUE(status.ok()) << status;
    for (const float found : run.Get<float>(sum)) {
      EXPECT_NEAR(found / (double{0.1f} * kRow), 1, 2e-5) << rows << " rows";
    }
  }
}

TEST_P(ReductionTest, SiblingsOfOneInputAreOneKernel) {
  const uint64_t n = 50, rows = 6;
  GraphBuilder b;
  const uint32_t x = b.Persistent({n, rows});
  const uint32_t sum = b.Persistent({1, rows});
  const uint32_t maximum = b.Persistent({1, rows});
  const uint32_t squashed = b.Persistent({n, rows});
  AddReduction(b, "sum", x, sum, 1);
  AddReduction(b, "max", x, maximum, 1);
  b.Node("tanh_fwd_f32", {x}, {squashed});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(n * rows);
  run.Set(x, xs);
  const absl::Status status = run.Run(GetParam());
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  std::vector<float> sums(rows), maxima(rows, -1e30f), tanhs;
  for (size_t i = 0; i < xs.size(); ++i) {
    sums[i / n] += xs[i];
    maxima[i / n] = std::max(maxima[i / n], xs[i]);
    tanhs.push_back(std::tanh(xs[i]));
  }
  ExpectNear(run.Get<float>(sum), sums, 1e-5);
  ExpectNear(run.Get<float>(maximum), maxima, 0);
  ExpectNear(run.Get<float>(squashed), tanhs, 1e-6);
}

// Vectors lie along the input, however many results are adjacent.
TEST_P(ReductionTest, SeveralResultsPerRowLeaveVectorsToTheInput) {
  const uint64_t n = 50, rows = 40;
  GraphBuilder b;
  const uint32_t x = b.Persistent({n, rows});
  const uint32_t sum = b.Persistent({1, rows});
  const uint32_t maximum = b.Persistent({1, rows});
  AddReduction(b, "sum", x, sum, 1);
  AddReduction(b, "max", x, maximum, 1);
  GraphRun run(b.graph);
  run.Set(x, RandomFloats(n * rows));
  ASSERT_TRUE(run.Run(GetParam()).ok());
  ASSERT_EQ(run.recipe.kernels.size(), 1u);
  EXPECT_EQ(run.recipe.kernels[0].tasks, rows);
}

// A sum over the rows of a matrix takes 64 columns per task, 32 where 64 would leave too few tasks,
// and 16 where the last task would have fewer.
TEST_P(ReductionTest, SumsOfColumnsTakeSeveralLinesOfARow) {
  const uint64_t rows = 70;
  for (const auto& [n, tasks] : {std::pair<uint64_t, uint64_t>{768, 12}, {256, 8}, {528, 33}}) {
    GraphBuilder b;
    const uint32_t x = b.Persistent({n, rows});
    const uint32_t sum = b.Persistent({n, 1});
    AddReduction(b, "sum", x, sum, 2);
    GraphRun run(b.graph);
    const auto xs = RandomFloats(n * rows);
    run.Set(x, xs);
    ASSERT_TRUE(run.Run(GetParam()).ok());
    ASSERT_EQ(run.recipe.kernels.size(), 1u);
    EXPECT_EQ(run.recipe.kernels[0].tasks, tasks);
    std::vector<float> sums(n, 0);
    for (size_t i = 0; i < xs.size(); ++i) sums[i % n] += xs[i];
    ExpectNear(run.Get<float>(sum), sums, 1e-5);
  }
}

// Reductions of the same input over different dimensions stay apart.
TEST_P(ReductionTest, OtherDimensionsAreOtherKernels) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({12, 7});
  const uint32_t rows = b.Persistent({1, 7});
  const uint32_t columns = b.Persistent({12, 1});
  AddReduction(b, "sum", x, rows, 1);
  AddReduction(b, "sum", x, columns, 2);
  GraphRun run(b.graph);
  const auto xs = RandomFloats(84);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 2u);
  std::vector<float> row_sums(7), column_sums(12);
  for (size_t i = 0; i < 84; ++i) {
    row_sums[i / 12] += xs[i];
    column_sums[i % 12] += xs[i];
  }
  ExpectNear(run.Get<float>(rows), row_sums, 1e-5);
  ExpectNear(run.Get<float>(columns), column_sums, 1e-5);
}

struct Split {
  Dims sizes;
  uint32_t mask;  // reduced dimensions, FCD-first
  size_t kernels;
};

// The pieces are the same however the tasks are distributed, and there are enough of them for many
// threads.
TEST_P(ReductionTest, LongReductionsAreCutInFixedPieces) {
  for (const Split& split :
       {Split{{200'000}, 1, 2}, Split{{100'003}, 1, 3}, Split{{300, 20, 13}, 7, 2},
        Split{{100'000, 3}, 1, 2}, Split{{64, 2000}, 2, 2}, Split{{20'011, 1, 5}, 5, 3},
        Split{{320, 20, 13}, 6, 2}, Split{{1024, 257}, 2, 3}, Split{{512, 577}, 2, 3},
        Split{{300, 353}, 2, 3}, Split{{600, 257, 4}, 2, 3}, Split{{768, 17, 16}, 6, 3},
        Split{{768, 37, 8}, 6, 3}, Split{{1024, 67, 4}, 6, 3}, Split{{600, 53, 5}, 6, 3},
        Split{{256, 19, 19}, 6, 3}, Split{{64, 65'537}, 2, 3}}) {
    Dims kept = split.sizes;
    for (size_t d = 0; d < kept.size(); ++d) {
      if ((split.mask >> d & 1) != 0) kept[d] = 1;
    }
    for (const char* kind : {"sum", "max"}) {
      SCOPED_TRACE(std::string(kind) + " of " + std::to_string(Elements(split.sizes)));
      GraphBuilder b;
      const uint32_t x = b.Persistent(split.sizes);
      const uint32_t out = b.Persistent(kept);
      AddReduction(b, kind, x, out, split.mask);
      const auto xs = RandomFloats(Elements(split.sizes), 1, -1, 3);
      std::vector<double> sums(Elements(kept));
      std::vector<double> maxima(Elements(kept), -1e30);
      for (size_t i = 0; i < xs.size(); ++i) {
        size_t rest = i, target = 0, stride = 1;
        for (size_t d = 0; d < kept.size(); ++d) {
          if (kept[d] != 1) {
            target += rest % split.sizes[d] * stride;
            stride *= kept[d];
          }
          rest /= split.sizes[d];
        }
        sums[target] += xs[i];
        maxima[target] = std::max<double>(maxima[target], xs[i]);
      }
      const std::vector<double>& exact = std::string(kind) == "sum" ? sums : maxima;
      GraphRun run(b.graph);
      run.Set(x, xs);
      const absl::Status status = run.Run(GetParam());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(run.recipe.kernels.size(), split.kernels);
      EXPECT_GE(run.recipe.kernels[0].tasks, 16u);
      const auto whole = run.Get<float>(out);
      ExpectNear(whole, std::vector<float>(exact.begin(), exact.end()), 1e-6);
      ASSERT_TRUE(run.Run(GetParam(), /*piece=*/3).ok());
      EXPECT_EQ(run.Get<float>(out), whole);
    }
  }
}

TEST_P(ReductionTest, ShortReductionsStayWhole) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({1000});
  const uint32_t out = b.Persistent({1});
  AddReduction(b, "sum", x, out, 1);
  GraphRun run(b.graph);
  const auto xs = RandomFloats(1000);
  run.Set(x, xs);
  ASSERT_TRUE(run.Run(GetParam()).ok());
  EXPECT_EQ(run.recipe.kernels.size(), 1u);
  double sum = 0;
  for (const float value : xs) sum += value;
  ExpectNear(run.Get<float>(out), {static_cast<float>(sum)}, 1e-5);
}

}  // namespace
}  // namespace hpu::graph_compiler
