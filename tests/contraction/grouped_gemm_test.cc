#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {
namespace {

using Ends = std::vector<int32_t>;

struct GroupedCase {
  Ends ends;
  int64_t m, n, k;
  bool inner = false;
  MemoryType type = MemoryType::kF32;
  bool a_transposed = false, b_transposed = false, stable = false;
  bool separate = false;  // each group's matrix is an operand of its own
};

std::string Name(const GroupedCase& c) {
  std::string name = c.inner ? "inner" : "rows";
  for (const int32_t end : c.ends) name += " " + std::to_string(end);
  name += ", m" + std::to_string(c.m) + " n" + std::to_string(c.n) + " k" + std::to_string(c.k);
  if (c.a_transposed) name += " aT";
  if (c.b_transposed) name += " bT";
  if (c.stable) name += " stable";
  if (c.separate) name += " separate";
  return name + " " + TypeName(c.type);
}

class GroupedRun {
 public:
  explicit GroupedRun(const GroupedCase& c)
      : c_(c),
        groups_(static_cast<int64_t>(c.ends.size())),
        a_(c.type, Elements(c.m, c.k, c.a_transposed) + 3),
        b_(c.type, (c.inner ? 1 : groups_) * Elements(c.k, c.n, c.b_transposed) + 2),
        ends_(MemoryType::kF32, groups_) {
    a_.FillRandom(1);
    b_.FillRandom(2);
    std::memcpy(ends_.data(), c.ends.data(), c.ends.size() * sizeof(int32_t));
    spec_.inner = c.inner;
    spec_.groups = groups_;
    spec_.m = c.m;
    spec_.n = c.n;
    spec_.k = c.k;
    Place(spec_.a, 0, 3, c.m, c.k, c.a_transposed);
    spec_.b.resize(c.separate ? c.ends.size() : 1);
    for (size_t i = 0; i < spec_.b.size(); ++i) {
      MatrixAccess& b = spec_.b[i];
      Place(b, 1, 2 + static_cast<int64_t>(i) * MatrixElements(), c.k, c.n, c.b_transposed);
      b.stable = c.stable;
      if (!c.inner && !c.separate) b.batch_strides = {MatrixElements()};
    }
    spec_.ends = Persistent(2);
    std::vector<int64_t> strides = {c.n + 1, 1};
    if (c.inner) strides.insert(strides.begin(), c.m * (c.n + 1));
    spec_.epilogue = StoreBody(MemoryType::kF32, strides, 1);
    spec_.epilogue_operands = {Persistent(3)};
    spec_.name = "test";
  }

  void Check(IsaLevel isa) {
    SCOPED_TRACE(Name(c_) + " " + LevelName(isa));
    CompiledContraction compiled(
        isa, [&](ContractionEmitter& emitter) { return emitter.EmitGroupedGemm(spec_); });
    const int64_t matrices = c_.inner ? groups_ : 1;
    TestBuffer out(MemoryType::kF32, matrices * c_.m * (c_.n + 1) + 1);
    TestBuffer again(MemoryType::kF32, out.elements());
    compiled.Run({&a_, &b_, &ends_, &out}, 1);
    compiled.Run({&a_, &b_, &ends_, &again}, 7, true);
    ASSERT_TRUE(out.GuardsIntact());
    ASSERT_EQ(std::memcmp(out.data(), again.data(), out.size_bytes()), 0) << "split changes bits";
    for (int64_t row = 0; row < matrices * c_.m; ++row) {
      for (int64_t col = 0; col < c_.n; ++col) {
        const auto [expected, magnitude] = Reference(row / c_.m, row % c_.m, col);
        const double bound = std::ldexp(static_cast<double>(c_.k + 16), -23) * magnitude;
        ASSERT_NEAR(out.Get(1 + row * (c_.n + 1) + col), expected, bound)
            << "row " << row << " col " << col;
      }
      ASSERT_TRUE(std::isnan(out.Get(1 + row * (c_.n + 1) + c_.n))) << "wrote beyond row " << row;
    }
  }

 private:
  int64_t MatrixElements() const { return Elements(c_.k, c_.n, c_.b_transposed); }
  // The inner dimension is a little apart, so that a kernel that takes matrices for dense fails.
  static int64_t Elements(int64_t rows, int64_t cols, bool transposed) {
    return transposed ? cols * (rows + 2) : rows * (cols + 2);
  }
  void Place(MatrixAccess& access, uint32_t operand, int64_t offset, int64_t rows, int64_t cols,
             bool transposed) const {
    access.type = c_.type;
    access.buffer = Persistent(operand);
    access.offset = offset;
    access.row_stride = transposed ? 1 : cols + 2;
    access.col_stride = transposed ? rows + 2 : 1;
  }

  int64_t GroupOf(int64_t position) const {
    int32_t last = 0;
    for (int64_t g = 0; g < groups_; ++g) {
      last = std::max(last, c_.ends[g]);
      if (position < last) return g;
    }
    return groups_;
  }

  // Returns the sum, and the sum of the magnitudes of everything that is added.
  std::pair<double, double> Reference(int64_t matrix, int64_t row, int64_t col) const {
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < c_.k; ++k) {
      const int64_t group = GroupOf(c_.inner ? k : row);
      if (c_.inner ? group != matrix : group == groups_) continue;
      const double a = a_.Get(3 + row * spec_.a.row_stride + k * spec_.a.col_stride);
      const int64_t base = c_.inner ? 0 : group * MatrixElements();
      const double b = b_.Get(2 + base + k * spec_.b[0].row_stride + col * spec_.b[0].col_stride);
      sum += a * b;
      magnitude += std::fabs(a * b);
    }
    return {sum, magnitude};
  }

  GroupedCase c_;
  int64_t groups_;
  TestBuffer a_, b_, ends_;
  GroupedGemmSpec spec_;
};

class GroupedGemmTest : public testing::TestWithParam<IsaLevel> {};

// Every remainder of a tile, groups without rows, and rows of no group.
TEST_P(GroupedGemmTest, RowsOfAnyGroup) {
  const Ends ends = {1, 1, 3, 6, 10, 15, 21, 28, 36, 45, 58, 72, 87, 103, 126};
  for (const bool b_transposed : {false, true}) {
    for (const bool stable : {false, true}) {
      for (const bool separate : {false, true}) {
        GroupedRun(
            {ends, 130, 37, 19, false, MemoryType::kF32, false, b_transposed, stable, separate})
            .Check(GetParam());
      }
    }
  }
  GroupedRun({{0, 150, 150, 320}, 320, 16, 7}).Check(GetParam());
  GroupedRun({{5}, 9, 1, 1, false, MemoryType::kF32, true}).Check(GetParam());
  // Matrices that are read in place, each from an operand of its own.
  GroupedRun({{2, 2, 9}, 11, 37, 19, false, MemoryType::kF32, false, false, false, true})
      .Check(GetParam());
}

TEST_P(GroupedGemmTest, FewRowsStream) {
  for (const int64_t m : {1, 2, 4}) {
    for (const bool b_transposed : {false, true}) {
      for (const Ends& ends : {Ends{0, 1, 1, 3}, Ends{0, 0}, Ends{4, 4, 4}}) {
        for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16, MemoryType::kF16}) {
          GroupedRun({ends, m, 77, 40, false, type, false, b_transposed, true, m == 2})
              .Check(GetParam());
        }
      }
    }
  }
  GroupedRun({{0, 2, 3}, 3, 40, 64, false, MemoryType::kF32, true, true}).Check(GetParam());
}

TEST_P(GroupedGemmTest, RangesOfTheInnerDimension) {
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16, MemoryType::kF16}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        GroupedRun({{3, 3, 20, 21}, 29, 37, 25, true, type, a_transposed, b_transposed})
            .Check(GetParam());
      }
    }
  }
  // Few groups of many terms, whose columns are not walked in place.
  GroupedRun({{100, 700}, 13, 16, 710, true, MemoryType::kF32, true}).Check(GetParam());
  GroupedRun({{1}, 1, 1, 1, true}).Check(GetParam());
}

TEST_P(GroupedGemmTest, NarrowTypes) {
  for (const MemoryType type : {MemoryType::kBF16, MemoryType::kF16}) {
    for (const bool stable : {false, true}) {
      for (const bool a_transposed : {false, true}) {
        GroupedRun({{7, 7, 30}, 33, 64, 50, false, type, a_transposed, stable, stable})
            .Check(GetParam());
      }
    }
  }
}

// Pairs of bf16 and AMX: every remainder of a tile, depths that AMX takes, fills up, and is too
// short for, panels that are packed once and staged, and blocks of k.
TEST_P(GroupedGemmTest, PairsOfBF16) {
  const Ends ends = {1, 1, 3, 18, 34, 51, 83, 116, 180, 310};
  for (const int64_t k : {64, 75, 12}) {
    for (const bool stable : {false, true}) {
      for (const bool separate : {false, true}) {
        GroupedRun({ends, 330, 40, k, false, MemoryType::kBF16, false, separate, stable, separate})
            .Check(GetParam());
      }
    }
  }
  GroupedRun({{1, 34, 61}, 70, 37, 64, false, MemoryType::kBF16, true, false, true})
      .Check(GetParam());
  GroupedRun({{40, 43, 250}, 260, 17, 6400, false, MemoryType::kBF16, false, true, true})
      .Check(GetParam());
  GroupedRun({{7, 9}, 9, 5, 64, false, MemoryType::kBF16, false, false, true}).Check(GetParam());
}

// The panel of a block of k stays in a cache, and sums lie in memory between blocks.
TEST_P(GroupedGemmTest, LongInnerDimensions) {
  for (const bool stable : {false, true}) {
    GroupedRun({{1, 140, 147}, 150, 17, 9001, false, MemoryType::kF32, false, true, stable})
        .Check(GetParam());
  }
}

// Nothing outside is read or written, whatever the ends are.
TEST_P(GroupedGemmTest, EndsOutOfOrder) {
  for (const Ends& ends : {Ends{5, 2, 7, 900}, Ends{-3, 4, -900, 6}, Ends{2000000000, -1}}) {
    GroupedRun({ends, 9, 33, 40}).Check(GetParam());
    GroupedRun({ends, 9, 33, 40, false, MemoryType::kF32, false, true, true, true})
        .Check(GetParam());
    GroupedRun({ends, 3, 33, 40, false, MemoryType::kF32, false, true}).Check(GetParam());
    GroupedRun({ends, 9, 33, 8, true}).Check(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, GroupedGemmTest, testing::ValuesIn(TestedLevels()),
                         [](const auto& level) {
                           std::string name = LevelName(level.param);
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace hpu::graph_compiler
