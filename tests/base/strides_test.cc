#include "base/strides.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace hpu {
namespace {

// Returns the places of the elements in row-major order of their indices.
Dims Places(const Dims& sizes, const Dims& strides) {
  Dims places = {0};
  for (size_t d = 0; d < sizes.size(); ++d) {
    Dims finer;
    for (const int64_t place : places) {
      for (int64_t i = 0; i < sizes[d]; ++i) finer.push_back(place + i * strides[d]);
    }
    places = std::move(finer);
  }
  return places;
}

TEST(Strides, SpanReachesTheLastElement) {
  EXPECT_EQ(SpanElements(Dims{2, 3}, Dims{10, 1}), 13);
  EXPECT_EQ(SpanElements(Dims{2, 3}, Dims{10, 1}, 5), 18);
  EXPECT_EQ(SpanElements(Dims{}, Dims{}), 1);
  EXPECT_EQ(SpanElements(Dims{2, 0}, Dims{INT64_MAX, 1}, 7), 0);
  EXPECT_LT(SpanElements(Dims{3}, Dims{INT64_MAX / 2 + 1}), 0);
  EXPECT_LT(SpanElements(Dims{2}, Dims{INT64_MAX}), 0);
}

TEST(Strides, PartsOfOneMatrixAreDisjoint) {
  const Dims part = {4, 3};
  const Dims strides = {9, 1};
  EXPECT_TRUE(AreDisjoint(part, strides, part, strides, 3));  // the next columns
  EXPECT_TRUE(AreDisjoint(part, strides, part, strides, -3));
  EXPECT_FALSE(AreDisjoint(part, strides, part, strides, 2));
  EXPECT_FALSE(AreDisjoint(part, strides, part, strides, 7));  // around the end of a row
  EXPECT_FALSE(AreDisjoint(part, strides, part, strides, 0));
  EXPECT_TRUE(AreDisjoint(part, strides, Dims{4}, Dims{9}, 3));  // one column beside them
  EXPECT_TRUE(AreDisjoint(Dims{3}, Dims{2}, Dims{3}, Dims{2}, 1));
  EXPECT_TRUE(AreDisjoint(part, strides, Dims{2, 0}, strides, 0));
}

TEST(Strides, DisjointLayoutsHaveNoCommonElement) {
  const std::vector<Dims> all_sizes = {{}, {2}, {3}, {2, 2}, {2, 3}, {3, 1}, {2, 2, 2}};
  const std::vector<int64_t> some = {1, 2, 3, 5, 8};
  int disjoint = 0;
  std::vector<std::pair<Dims, Dims>> layouts;
  for (const Dims& sizes : all_sizes) {
    std::vector<Dims> all_strides = {{}};
    for (size_t d = 0; d < sizes.size(); ++d) {
      std::vector<Dims> longer;
      for (const Dims& strides : all_strides) {
        for (const int64_t stride : some) {
          longer.push_back(strides);
          longer.back().push_back(stride);
        }
      }
      all_strides = std::move(longer);
    }
    for (const Dims& strides : all_strides) layouts.emplace_back(sizes, strides);
  }
  for (const auto& [sizes_a, strides_a] : layouts) {
    const Dims places = Places(sizes_a, strides_a);
    const std::set<int64_t> taken(places.begin(), places.end());
    for (const auto& [sizes_b, strides_b] : layouts) {
      for (const int64_t distance : {0, 1, 2, 4, 7}) {
        if (!AreDisjoint(sizes_a, strides_a, sizes_b, strides_b, distance)) continue;
        ++disjoint;
        for (const int64_t place : Places(sizes_b, strides_b)) {
          ASSERT_FALSE(taken.contains(place + distance));
        }
      }
    }
  }
  EXPECT_GT(disjoint, 1000);
}

TEST(Strides, RowMajor) {
  EXPECT_EQ(RowMajorStrides(Dims{2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(RowMajorStrides(Dims{2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(RowMajorStrides(Dims{}), Dims{});
  EXPECT_EQ(NumElements(Dims{2, 3, 4}), 24);
  EXPECT_EQ(NumElements(Dims{2, 0, 4}), 0);
  EXPECT_EQ(NumElements(Dims{}), 1);
}

TEST(Strides, RowMajorOrderIgnoresDimensionsOfSizeOneAndEmptyTensors) {
  EXPECT_TRUE(IsRowMajor(Dims{2, 1, 3}, Dims{3, 77, 1}));
  EXPECT_TRUE(IsRowMajor(Dims{0, 3}, Dims{9, 9}));
  EXPECT_FALSE(IsRowMajor(Dims{2, 3}, Dims{1, 2}));
  EXPECT_FALSE(IsRowMajor(Dims{2, 3}, Dims{4, 1}));
}

TEST(Strides, DenseMemoryTellsItsOrder) {
  Dims perm;
  EXPECT_TRUE(IsDense(Dims{2, 3, 4, 5}, Dims{60, 1, 15, 3}, &perm));
  EXPECT_EQ(perm, (Dims{0, 2, 3, 1}));
  EXPECT_TRUE(IsDense(Dims{3, 1, 4}, Dims{1, 100, 3}, &perm));
  EXPECT_EQ(perm, (Dims{2, 1, 0}));
  EXPECT_FALSE(IsDense(Dims{2, 3}, Dims{4, 1}));  // a gap
  EXPECT_FALSE(IsDense(Dims{2, 3}, Dims{0, 1}));  // shared elements
  EXPECT_FALSE(IsDense(Dims{0, 3}, Dims{3, 1}));
}

TEST(Strides, BufferInTheOrderOfAnother) {
  EXPECT_EQ(StridesInOrderOf(Dims{2, 3, 4, 5}, Dims{600, 1, 150, 30}), (Dims{60, 1, 15, 3}));
  EXPECT_EQ(StridesInOrderOf(Dims{2, 3}, Dims{7, 7}), (Dims{3, 1}));
}

TEST(Strides, Broadcast) {
  EXPECT_EQ(BroadcastSizes(Dims{3, 1}, Dims{2, 1, 4}), (Dims{2, 3, 4}));
  EXPECT_EQ(BroadcastSizes(Dims{0}, Dims{1}), Dims{0});
  EXPECT_EQ(BroadcastSizes(Dims{3}, Dims{4}), std::nullopt);
  EXPECT_EQ(BroadcastStrides(Dims{3, 1, 1}, Dims{5, 9, 7}, Dims{2, 3, 4, 1}), (Dims{0, 5, 0, 7}));
}

TEST(Strides, ReshapeByHand) {
  EXPECT_EQ(ReshapeStrides(Dims{6, 4}, Dims{40, 10}, Dims{3, 2, 4}), (Dims{80, 40, 10}));
  EXPECT_EQ(ReshapeStrides(Dims{2, 3, 4}, Dims{120, 40, 10}, Dims{24}), Dims{10});
  EXPECT_EQ(ReshapeStrides(Dims{2, 3}, Dims{1, 2}, Dims{6}), std::nullopt);     // transposed
  EXPECT_EQ(ReshapeStrides(Dims{2, 3}, Dims{5, 1}, Dims{3, 2}), std::nullopt);  // across a gap
  EXPECT_EQ(ReshapeStrides(Dims{4}, Dims{0}, Dims{2, 2}), (Dims{0, 0}));        // one element
  EXPECT_EQ(ReshapeStrides(Dims{2, 3}, Dims{3, 1}, Dims{5}), std::nullopt);
  EXPECT_EQ(ReshapeStrides(Dims{4, 8}, Dims{8, 1}, Dims{8}), std::nullopt);
  EXPECT_EQ(ReshapeStrides(Dims{0, 3}, Dims{9, 9}, Dims{2, 0}), (Dims{1, 1}));
}

// This takes all layouts of 24 elements from a few strides, seen as all shapes of 24 elements. They
// must give the same places in the same order, and nullopt only where no strides give them.
TEST(Strides, ReshapedMemoryIsTheSameInTheSameOrder) {
  const std::vector<Dims> shapes = {{24},      {2, 12},   {12, 2},      {4, 6},       {6, 4},
                                    {3, 8},    {2, 3, 4}, {4, 3, 2},    {2, 2, 6},    {2, 2, 2, 3},
                                    {1, 24},   {24, 1},   {2, 1, 12},   {3, 2, 1, 4}, {1, 4, 1, 6},
                                    {8, 3, 1}, {3, 4, 2}, {2, 1, 4, 3}, {6, 2, 2}};
  int views = 0;
  int copies = 0;
  for (const Dims& sizes : shapes) {
    std::vector<Dims> layouts = {Dims(sizes.size(), 0)};
    for (const int64_t gap : {1, 5}) {
      Dims rotated(sizes.rbegin(), sizes.rend());
      const Dims inner = RowMajorStrides(rotated);
      layouts.emplace_back(inner.rbegin(), inner.rend());
      layouts.push_back(RowMajorStrides(sizes));
      for (int64_t& stride : layouts.back()) stride *= gap;
      layouts.push_back(layouts.back());
      layouts.back()[0] *= gap;
      layouts.back().back() = 0;
    }
    for (const Dims& strides : layouts) {
      const Dims places = Places(sizes, strides);
      for (const Dims& to : shapes) {
        if (const auto seen = ReshapeStrides(sizes, strides, to)) {
          EXPECT_EQ(Places(to, *seen), places);
          ++views;
          continue;
        }
        ++copies;
        // The only candidate is the distance of one step along each dimension.
        Dims wanted(to.size(), 0);
        const Dims steps = RowMajorStrides(to);
        for (size_t d = 0; d < to.size(); ++d) {
          if (to[d] > 1) wanted[d] = places[steps[d]] - places[0];
        }
        EXPECT_NE(Places(to, wanted), places);
      }
    }
  }
  EXPECT_GT(views, 500);
  EXPECT_GT(copies, 500);
}

}  // namespace
}  // namespace hpu
