#include "compiler_server/ir/types.h"

#include <gtest/gtest.h>

namespace hpu::ir {
namespace {

TEST(Types, ContiguityIgnoresDimensionsOfSizeOne) {
  EXPECT_TRUE((TensorType{DType::kF32, {2, 1, 3}, {3, 77, 1}}.contiguous()));
  EXPECT_FALSE((TensorType{DType::kF32, {2, 3}, {1, 2}}.contiguous()));
  EXPECT_TRUE((TensorType{DType::kF32, {0, 3}, {9, 9}}.contiguous()));
}

TEST(Types, DensePermutationGivesTheOrderOfMemory) {
  Dims perm;
  EXPECT_TRUE(IsDense({DType::kF32, {2, 3, 4, 5}, {60, 1, 15, 3}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 2, 3, 1}));
  EXPECT_TRUE(IsDense({DType::kF32, {1, 3, 4, 5}, {60, 1, 15, 3}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 2, 3, 1}));
  EXPECT_TRUE(IsDense({DType::kF32, {2, 1, 4}, {4, 1, 1}}, &perm));
  EXPECT_EQ(perm, (Dims{0, 1, 2}));
  EXPECT_FALSE(IsDense({DType::kF32, {2, 3}, {4, 1}}, &perm));
  EXPECT_FALSE(IsDense({DType::kF32, {2, 3}, {0, 1}}, &perm));
}

TEST(Types, SpanCountsToTheLastElement) {
  EXPECT_EQ(SpanElements({DType::kF32, {2, 3}, {10, 1}}), 13);
  EXPECT_EQ(SpanElements({DType::kF32, {2, 0}, {10, 1}}), 0);
  EXPECT_EQ(SpanElements({DType::kF32, {}, {}}), 1);
}

}  // namespace
}  // namespace hpu::ir
