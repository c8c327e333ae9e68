#include "base/dtype.h"

#include <gtest/gtest.h>

namespace hpu {
namespace {

TEST(DType, NamesRoundTrip) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
    EXPECT_GT(DTypeSize(dtype), 0);
  }
  EXPECT_EQ(DTypeFromName("f33"), std::nullopt);
  EXPECT_EQ(DTypeFromName("invalid"), std::nullopt);
}

// The numbers are on disk and on the wire, so this table may only grow.
TEST(DType, NumbersArePinned) {
  EXPECT_EQ(static_cast<int>(DType::kF32), 1);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 2);
  EXPECT_EQ(static_cast<int>(DType::kI64), 9);
  EXPECT_EQ(static_cast<int>(DType::kBool), 10);
  EXPECT_EQ(static_cast<int>(DType::kU64), 17);
}

TEST(DType, SizesAndClasses) {
  EXPECT_EQ(DTypeSize(DType::kBF16), 2);
  EXPECT_EQ(DTypeSize(DType::kC128), 16);
  EXPECT_TRUE(IsFloat(DType::kF8E5M2));
  EXPECT_FALSE(IsFloat(DType::kI32));
  EXPECT_TRUE(IsInteger(DType::kU8));
  EXPECT_FALSE(IsInteger(DType::kBool));
  EXPECT_TRUE(IsComplex(DType::kC64));
}

TEST(DType, MovesAsItselfOrAsBitsOfItsSize) {
  EXPECT_EQ(MovedType(DType::kBool), DType::kBool);
  EXPECT_EQ(MovedType(DType::kF64), DType::kI64);
  EXPECT_EQ(MovedType(DType::kC128), DType::kInvalid);
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DType moved = MovedType(dtype);
    EXPECT_EQ(MovedType(moved), moved) << DTypeName(dtype);
    if (moved == DType::kInvalid) continue;
    EXPECT_EQ(DTypeSize(moved), DTypeSize(dtype)) << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace hpu
