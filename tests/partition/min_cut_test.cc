#include "compiler_server/partition/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hpu::compiler {
namespace {

struct TestEdge {
  uint32_t from;
  uint32_t to;
  uint64_t capacity;
};

uint64_t ValueOf(const std::vector<TestEdge>& edges, const std::vector<bool>& side) {
  uint64_t value = 0;
  for (const TestEdge& edge : edges) {
    if (side[edge.from] && !side[edge.to]) value += edge.capacity;
  }
  return value;
}

TEST(MinCut, CutsWhereItIsNarrow) {
  // The edges are 0 -> 2 -> 3 -> 1, and the middle is narrow.
  MinCut cut(4);
  cut.AddEdge(MinCut::kSource, 2, 5);
  cut.AddEdge(2, 3, 2);
  cut.AddEdge(3, MinCut::kSink, 5);
  EXPECT_EQ(cut.Solve(), std::vector<bool>({true, false, true, false}));
  EXPECT_EQ(cut.value(), 2u);
}

TEST(MinCut, IsNearestToTheSource) {
  MinCut cut(4);
  cut.AddEdge(MinCut::kSource, 2, 3);
  cut.AddEdge(2, 3, 3);
  cut.AddEdge(3, MinCut::kSink, 3);
  EXPECT_EQ(cut.Solve(), std::vector<bool>({true, false, false, false}));
}

TEST(MinCut, SaysWhenThereIsNone) {
  MinCut cut(3);
  cut.AddEdge(MinCut::kSource, 2, MinCut::kUnlimited);
  cut.AddEdge(2, MinCut::kSink, MinCut::kUnlimited);
  cut.Solve();
  EXPECT_GE(cut.value(), MinCut::kUnlimited);
}

TEST(MinCut, LongChainsNeedNoStack) {
  constexpr uint32_t kLength = 200'000;
  MinCut cut(kLength);
  cut.AddEdge(MinCut::kSource, 2, 7);
  for (uint32_t i = 2; i + 1 < kLength; ++i) cut.AddEdge(i, i + 1, 9);
  cut.AddEdge(kLength - 1, MinCut::kSink, 8);
  cut.Solve();
  EXPECT_EQ(cut.value(), 7u);
}

// Compares with all cuts of graphs of up to ten vertices.
TEST(MinCut, IsMinimal) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t vertices = 3 + random() % 8;
    std::vector<TestEdge> edges;
    MinCut cut(vertices);
    for (uint32_t i = 0; i < 3 * vertices; ++i) {
      const TestEdge edge{static_cast<uint32_t>(random() % vertices),
                          static_cast<uint32_t>(random() % vertices), random() % 20};
      edges.push_back(edge);
      cut.AddEdge(edge.from, edge.to, edge.capacity);
    }
    const std::vector<bool> side = cut.Solve();
    ASSERT_TRUE(side[MinCut::kSource]);
    ASSERT_FALSE(side[MinCut::kSink]);
    EXPECT_EQ(ValueOf(edges, side), cut.value());
    uint64_t best = UINT64_MAX;
    for (uint32_t set = 0; set < (1u << vertices); ++set) {
      std::vector<bool> other(vertices);
      for (uint32_t v = 0; v < vertices; ++v) other[v] = ((set >> v) & 1) != 0;
      if (other[MinCut::kSource] && !other[MinCut::kSink]) {
        best = std::min(best, ValueOf(edges, other));
      }
    }
    EXPECT_EQ(cut.value(), best);
  }
}

}  // namespace
}  // namespace hpu::compiler
