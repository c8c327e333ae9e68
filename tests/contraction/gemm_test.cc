#include <gtest/gtest.h>

#include <cmath>

#include "graph_compiler/contraction/tiles/tiling.h"
#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

struct GemmCase {
  int64_t m, n, k;
  bool a_transposed = false, b_transposed = false, stable = false;
  MemoryType a_type = MemoryType::kF32, b_type = MemoryType::kF32, c_type = MemoryType::kF32;
  std::vector<int64_t> batch = {};
  bool a_broadcast = false, b_broadcast = false;  // broadcast over the outermost batch dimension
  int64_t a_spread = 1, b_spread = 1;             // stride of the inner dimension
};

std::string Name(const GemmCase& c) {
  std::string name = "m" + std::to_string(c.m) + " n" + std::to_string(c.n) + " k" +
                     std::to_string(c.k) + (c.a_transposed ? " aT" : "") +
                     (c.b_transposed ? " bT" : "") + (c.stable ? " stable" : "") + " types " +
                     std::to_string(static_cast<int>(c.a_type)) +
                     std::to_string(static_cast<int>(c.b_type)) + " batch";
  for (const int64_t size : c.batch) name += " " + std::to_string(size);
  return name;
}

// Places dense batches of rows x cols with the inner dimension spread out; returns the number of
// elements needed.
int64_t Place(MatrixAccess& access, const std::vector<int64_t>& batch, bool broadcast, int64_t rows,
              int64_t cols, bool transposed, int64_t spread, int64_t offset) {
  const int64_t inner = transposed ? rows : cols;
  const int64_t outer = transposed ? cols : rows;
  const int64_t pitch = (inner * spread + 4) / 2 * 2;
  access.row_stride = transposed ? spread : pitch;
  access.col_stride = transposed ? pitch : spread;
  access.offset = offset;
  int64_t size = std::max<int64_t>(outer * pitch, 1);
  access.batch_strides.assign(batch.size(), 0);
  for (size_t i = batch.size(); i-- > 0;) {
    if (broadcast && i == 0) continue;
    access.batch_strides[i] = size;
    size *= std::max<int64_t>(batch[i], 1);
  }
  return size + offset;
}

class GemmRun {
 public:
  explicit GemmRun(const GemmCase& c) : c_(c) {
    spec_.batch = c.batch;
    spec_.m = c.m;
    spec_.n = c.n;
    spec_.k = c.k;
    spec_.a.type = c.a_type;
    spec_.b.type = c.b_type;
    spec_.a.buffer = Persistent(0);
    spec_.b.buffer = Persistent(1);
    const int64_t a_size =
        Place(spec_.a, c.batch, c.a_broadcast, c.m, c.k, c.a_transposed, c.a_spread, 5);
    const int64_t b_size =
        Place(spec_.b, c.batch, c.b_broadcast, c.k, c.n, c.b_transposed, c.b_spread, 2);
    spec_.b.stable = c.stable;
    spec_.b.buffer_bytes = static_cast<uint64_t>(b_size * MemoryTypeSize(c.b_type));
    spec_.name = "test";
    for (const int64_t size : c.batch) count_ *= size;
    pitch_ = c.n + 1;
    std::vector<int64_t> strides(c.batch.size(), 0);
    int64_t size = c.m * pitch_;
    for (size_t i = c.batch.size(); i-- > 0;) {
      strides[i] = size;
      size *= c.batch[i];
    }
    strides.push_back(pitch_);
    strides.push_back(1);
    c_strides_ = strides;
    spec_.epilogue = StoreBody(c.c_type, strides, 1);
    spec_.epilogue_operands = {Persistent(2)};
    a_ = std::make_unique<TestBuffer>(c.a_type, a_size);
    b_ = std::make_unique<TestBuffer>(c.b_type, b_size);
    a_->FillRandom(1);
    b_->FillRandom(2);
    out_elements_ = size + 1;
  }

  std::vector<int64_t> Coordinates(int64_t flat) const {
    std::vector<int64_t> index(c_.batch.size());
    for (size_t i = index.size(); i-- > 0;) {
      index[i] = flat % c_.batch[i];
      flat /= c_.batch[i];
    }
    return index;
  }

  double Reference(int64_t batch, int64_t row, int64_t col) const {
    int64_t a = spec_.a.offset, b = spec_.b.offset;
    const auto index = Coordinates(batch);
    for (size_t i = 0; i < index.size(); ++i) {
      a += index[i] * spec_.a.batch_strides[i];
      b += index[i] * spec_.b.batch_strides[i];
    }
    double sum = 0;
    for (int64_t k = 0; k < c_.k; ++k) {
      sum += static_cast<double>(a_->Get(a + row * spec_.a.row_stride + k * spec_.a.col_stride)) *
             b_->Get(b + k * spec_.b.row_stride + col * spec_.b.col_stride);
    }
    return sum;
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitGemm(spec_); });
    TestBuffer out(c_.c_type, out_elements_);
    TestBuffer again(c_.c_type, out_elements_);
    compiled.Run({a_.get(), b_.get(), &out}, 1);
    compiled.Run({a_.get(), b_.get(), &again}, 7, true);
    ASSERT_TRUE(out.GuardsIntact());
    ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size_bytes()), 0) << "split changes bits";
    const double rounding = c_.c_type == MemoryType::kF32 ? 2e-7 * (c_.k + 8) : 0.005;
    for (int64_t batch = 0; batch < count_; ++batch) {
      for (int64_t row = 0; row < c_.m; ++row) {
        for (int64_t col = 0; col < c_.n; ++col) {
          const double expected = Reference(batch, row, col);
          const double actual = out.Get(1 + batch * c_.m * pitch_ + row * pitch_ + col);
          ASSERT_NEAR(actual, expected, rounding * (1 + std::fabs(expected)))
              << "batch " << batch << " row " << row << " col " << col;
        }
        ASSERT_TRUE(std::isnan(out.Get(1 + batch * c_.m * pitch_ + row * pitch_ + c_.n)))
            << "wrote beyond the row " << row;
      }
    }
  }

  GemmSpec& spec() { return spec_; }

 private:
  GemmCase c_;
  GemmSpec spec_;
  int64_t count_ = 1;
  int64_t pitch_ = 0;
  int64_t out_elements_ = 0;
  std::vector<int64_t> c_strides_;
  std::unique_ptr<TestBuffer> a_, b_;
};

void CheckAll(const std::vector<GemmCase>& cases) {
  for (const GemmCase& c : cases) {
    for (const IsaLevel isa : TestedLevels()) {
      GemmRun(c).Check(isa);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(GemmTest, StableWeights) {
  CheckAll({{.m = 6, .n = 16, .k = 8, .stable = true},
            {.m = 128, .n = 48, .k = 64, .b_transposed = true, .stable = true},
            {.m = 37, .n = 131, .k = 53, .stable = true},
            {.m = 37, .n = 131, .k = 53, .b_transposed = true, .stable = true},
            {.m = 300, .n = 33, .k = 7, .b_transposed = true, .stable = true},
            {.m = 17, .n = 5, .k = 900, .b_transposed = true, .stable = true},
            {.m = 29, .n = 40, .k = 1031, .stable = true},
            {.m = 9, .n = 24, .k = 31, .stable = true, .b_spread = 3}});
}

// Results are the same however a thread's tasks join: shares of 7 begin and end inside groups.
TEST(GemmTest, LongProductsOfManyPanels) {
  CheckAll({{.m = 30, .n = 600, .k = 1700, .stable = true}, {.m = 26, .n = 600, .k = 1600}});
}

// A does not stay in L2 as a whole, so there is a task per panel, and one thread joins several of
// them.
TEST(GemmTest, LongProductsHaveATaskAPanel) {
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
    const TargetInfo target = TargetInfoFor(isa);
    const GemmBlocks blocks =
        ChooseGemmBlocks(target, 1, 128, 1536, 3072, {.vectors = ChoosePanelVectors(target, 1536)});
    EXPECT_GT(blocks.k_blocks, 1);
    EXPECT_EQ(blocks.panel_blocks, blocks.panels);
    EXPECT_GT(blocks.tasks_joined, 1);
    EXPECT_FALSE(blocks.rows_first);
  }
}

// Threads should not wait for one of five tasks. A product that has enough tasks, or little work,
// stays whole.
TEST(GemmTest, FewPanelsAreCutByRowsToo) {
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
    const TargetInfo target = TargetInfoFor(isa);
    const auto tasks = [&](int64_t m, int64_t n, int64_t k) {
      const PanelUse use{.vectors = ChoosePanelVectors(target, n)};
      return ChooseGemmBlocks(target, 1, m, n, k, use).tasks_per_matrix();
    };
    EXPECT_GE(tasks(49, 160, 960), 8u);
    EXPECT_GE(tasks(196, 64, 384), 8u);
    EXPECT_GE(tasks(784, 32, 192), 8u);
    EXPECT_EQ(tasks(12, 16, 64), 1u);
  }
}

// There are three tasks for each of 32 threads where a thread may run the blocks of rows of a panel
// in turn.
TEST(GemmTest, ManyThreadsShareAProductWhoseRowsStayInL2) {
  for (const IsaLevel isa : {IsaLevel::kV3, IsaLevel::kV4}) {
    const TargetInfo target = TargetInfoFor(isa);
    const PanelUse use{.vectors = ChoosePanelVectors(target, 768)};
    for (const int64_t m : {128, 197}) {
      const GemmBlocks blocks = ChooseGemmBlocks(target, 1, m, 768, 768, use);
      EXPECT_GE(blocks.tasks_per_matrix(), 96u) << m;
      EXPECT_TRUE(blocks.rows_first) << m;
    }
  }
  CheckAll({{.m = 128, .n = 256, .k = 512, .stable = true}});
}

TEST(GemmTest, Activations) {
  CheckAll({{.m = 64, .n = 64, .k = 32},
            {.m = 101, .n = 67, .k = 19},
            {.m = 101, .n = 67, .k = 19, .b_transposed = true},
            {.m = 13, .n = 41, .k = 47},
            {.m = 7, .n = 7, .k = 7, .a_transposed = true, .b_transposed = true},
            {.m = 50, .n = 30, .k = 300, .a_transposed = true},
            {.m = 12, .n = 20, .k = 9, .a_spread = 2, .b_spread = 2}});
}

TEST(GemmTest, FewRows) {
  for (const int64_t m : {1, 2, 3, 4, 5}) {
    CheckAll({{.m = m, .n = 257, .k = 131, .b_transposed = true, .stable = true},
              {.m = m, .n = 64, .k = 64},
              {.m = m, .n = 259, .k = 67},
              {.m = m, .n = 3, .k = 300, .b_transposed = true},
              {.m = m, .n = 40, .k = 37, .b_spread = 2},
              {.m = m, .n = 70, .k = 70, .a_transposed = true}});
  }
}

TEST(GemmTest, MatrixTimesVector) {
  for (const int64_t m : {5, 64, 259}) {
    CheckAll({{.m = m, .n = 1, .k = 131},
              {.m = m, .n = 1, .k = 131, .stable = true},
              {.m = m, .n = 1, .k = 70, .a_transposed = true},
              {.m = m, .n = 1, .k = 64, .b_transposed = true, .batch = {3, 2}},
              {.m = m, .n = 1, .k = 33, .a_spread = 2, .b_spread = 3}});
  }
}

TEST(GemmTest, DegenerateSizes) {
  CheckAll({{.m = 5, .n = 9, .k = 0},
            {.m = 1, .n = 1, .k = 1},
            {.m = 1, .n = 1, .k = 100},
            {.m = 100, .n = 1, .k = 1},
            {.m = 1, .n = 100, .k = 1},
            {.m = 40, .n = 1, .k = 40, .stable = true},
            {.m = 0, .n = 4, .k = 4},
            {.m = 4, .n = 0, .k = 4},
            {.m = 3, .n = 3, .k = 3, .batch = {0}}});
}

TEST(GemmTest, Batches) {
  CheckAll({{.m = 3, .n = 5, .k = 2, .batch = {7, 3}},
            {.m = 8, .n = 8, .k = 8, .b_transposed = true, .batch = {40}},
            {.m = 33, .n = 17, .k = 9, .batch = {1, 5}, .b_broadcast = true},
            {.m = 33, .n = 17, .k = 9, .batch = {2, 3}, .a_broadcast = true},
            {.m = 33, .n = 17, .k = 9, .stable = true, .batch = {2, 3}},
            {.m = 20, .n = 17, .k = 9, .stable = true, .batch = {2, 3}, .b_broadcast = true},
            {.m = 1, .n = 64, .k = 48, .b_transposed = true, .batch = {4, 3}},
            {.m = 2, .n = 64, .k = 48, .batch = {3}}});
}

TEST(GemmTest, NarrowTypes) {
  const std::vector<GemmCase> shapes = {
      {.m = 37, .n = 131, .k = 200, .stable = true},
      {.m = 37, .n = 70, .k = 53, .b_transposed = true, .stable = true},
      {.m = 150, .n = 70, .k = 330, .b_transposed = true, .stable = true, .batch = {2}},
      {.m = 9, .n = 10, .k = 53, .b_transposed = true, .stable = true},
      {.m = 40, .n = 40, .k = 53, .b_transposed = true, .batch = {3}},
      {.m = 40, .n = 40, .k = 53, .a_transposed = true},
      {.m = 1, .n = 70, .k = 53, .b_transposed = true},
      {.m = 4, .n = 21, .k = 100, .b_transposed = true, .batch = {2}},
      {.m = 3, .n = 70, .k = 53}};
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    for (const MemoryType out : {type, MemoryType::kF32}) {
      std::vector<GemmCase> cases = shapes;
      for (GemmCase& c : cases) {
        c.a_type = c.b_type = type;
        c.c_type = out;
      }
      CheckAll(cases);
    }
  }
}

// In weight gradients, rows of A lie across memory (panels of row tiles), several blocks of rows
// share the panels of B, and k is longer than a task copies at once. The last tiles are lower than
// the others.
TEST(GemmTest, RowsAcrossMemory) {
  const std::vector<GemmCase> shapes = {
      {.m = 36, .n = 40, .k = 130, .a_transposed = true},
      {.m = 101, .n = 18, .k = 520, .a_transposed = true},
      {.m = 490, .n = 9, .k = 140, .a_transposed = true, .b_transposed = true},
      {.m = 5, .n = 40, .k = 260, .a_transposed = true},
      {.m = 31, .n = 20, .k = 257, .a_transposed = true, .batch = {2, 2}},
      {.m = 31, .n = 20, .k = 257, .a_transposed = true, .batch = {2, 2}, .a_broadcast = true},
      {.m = 490, .n = 9, .k = 20, .batch = {2}, .b_broadcast = true}};
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kF16}) {
    for (GemmCase c : shapes) {
      c.a_type = c.b_type = type;
      CheckAll({c});
    }
  }
}

// In products of training both operands change. The cases have depths that AMX takes and that it
// leaves to vectors, a k without a good divisor, which is filled up, and rows and columns beyond
// the last block.
TEST(GemmTest, ChangingOperandsOfBF16) {
  const std::vector<GemmCase> shapes = {
      {.m = 70, .n = 70, .k = 64},
      {.m = 70, .n = 70, .k = 64, .b_transposed = true},
      {.m = 150, .n = 130, .k = 80, .a_transposed = true},
      {.m = 33, .n = 40, .k = 62, .a_transposed = true, .b_transposed = true},
      {.m = 40, .n = 33, .k = 20, .a_transposed = true},
      {.m = 40, .n = 33, .k = 64, .a_spread = 2, .b_spread = 3},
      {.m = 40, .n = 20, .k = 64, .a_transposed = true},
      {.m = 20, .n = 40, .k = 64},
      {.m = 36, .n = 48, .k = 32, .a_transposed = true, .batch = {2, 3}},
      {.m = 36, .n = 48, .k = 32, .b_transposed = true, .batch = {2, 3}, .b_broadcast = true},
      {.m = 36, .n = 48, .k = 32, .a_transposed = true, .batch = {2, 3}, .a_broadcast = true},
      {.m = 36, .n = 48, .k = 32, .a_transposed = true, .stable = true},
      {.m = 77, .n = 70, .k = 197, .a_transposed = true},
      {.m = 77, .n = 70, .k = 394, .a_transposed = true, .b_transposed = true},
      {.m = 69, .n = 39, .k = 197, .batch = {2}},
      {.m = 69, .n = 39, .k = 74, .b_transposed = true, .batch = {2}},
      {.m = 69, .n = 39, .k = 75, .a_spread = 2, .b_spread = 3},
      {.m = 69, .n = 33, .k = 74, .b_transposed = true, .stable = true}};
  for (GemmCase c : shapes) {
    c.a_type = c.b_type = MemoryType::kBF16;
    CheckAll({c});
  }
}

TEST(GemmTest, FewRowsOfMixedTypes) {
  const std::vector<GemmCase> shapes = {{.m = 2, .n = 37, .k = 83, .b_transposed = true},
                                        {.m = 2, .n = 37, .k = 83}};
  for (GemmCase c : shapes) {
    c.a_type = MemoryType::kBF16;
    CheckAll({c});
    std::swap(c.a_type, c.b_type);
    CheckAll({c});
  }
}

}  // namespace
}  // namespace hpu::graph_compiler
