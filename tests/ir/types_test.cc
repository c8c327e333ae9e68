#include "compiler_server/ir/types.h"

#include <gtest/gtest.h>

#include "compiler_server/ir/aliases.h"

namespace hpu::ir {
namespace {

TEST(Types, ContiguityIgnoresDimensionsOfSizeOne) {
  EXPECT_TRUE((TensorType{DType::kF32, {2, 1, 3}, {3, 77, 1}}.contiguous()));
  EXPECT_FALSE((TensorType{DType::kF32, {2, 3}, {1, 2}}.contiguous()));
  EXPECT_TRUE((TensorType{DType::kF32, {0, 3}, {9, 9}}.contiguous()));
}

TEST(Types, DensePermutationGivesTheOrderOfMemory) {
  Dims perm;
  EXPECT_TRUE(IsDensePermutation({DType::kF32, {2, 3, 4, 5}, {60, 1, 15, 3}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 2, 3, 1}));
  EXPECT_TRUE(IsDensePermutation({DType::kF32, {1, 3, 4, 5}, {60, 1, 15, 3}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 2, 3, 1}));
  EXPECT_TRUE(IsDensePermutation({DType::kF32, {2, 1, 4}, {4, 1, 1}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 1, 2}));
  EXPECT_FALSE(IsDensePermutation({DType::kF32, {2, 3}, {4, 1}}, &perm));
  EXPECT_FALSE(IsDensePermutation({DType::kF32, {2, 3}, {0, 1}}, &perm));
}

TEST(Types, SpanCountsToTheLastElement) {
  EXPECT_EQ(SpanElements({DType::kF32, {2, 3}, {10, 1}}), 13);
  EXPECT_EQ(SpanElements({DType::kF32, {2, 0}, {10, 1}}), 0);
  EXPECT_EQ(SpanElements({DType::kF32, {}, {}}), 1);
}

TEST(Types, Broadcasting) {
  Dims sizes;
  EXPECT_TRUE(BroadcastSizes(Dims{3, 1}, Dims{2, 1, 4}, &sizes));
  EXPECT_EQ(sizes, (Dims{2, 3, 4}));
  EXPECT_FALSE(BroadcastSizes(Dims{3}, Dims{4}, &sizes));
  EXPECT_TRUE(BroadcastSizes(Dims{0}, Dims{1}, &sizes));
  EXPECT_EQ(sizes, (Dims{0}));
}

TEST(Aliases, ReshapeIsAViewWhereStridesAllowIt) {
  const TensorType transposed{DType::kF32, {3, 4}, {1, 3}};
  EXPECT_EQ(ViewStrides(transposed, {12}), std::nullopt);
  EXPECT_EQ(ViewStrides(transposed, {3, 2, 2}), (Dims{1, 6, 3}));
  EXPECT_EQ(ViewStrides(Contiguous(DType::kF32, {3, 4}), {2, 6}), (Dims{6, 1}));
  EXPECT_EQ(ViewStrides(Contiguous(DType::kF32, {}), {1, 1}), (Dims{1, 1}));
}

}  // namespace
}  // namespace hpu::ir
