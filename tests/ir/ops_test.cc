#include "compiler_server/ir/ops.h"

#include <gtest/gtest.h>

namespace hpu::ir {
namespace {

TEST(Ops, NamesAreTheirOwnInverse) {
  for (int i = 0; i < kNumOps; ++i) {
    const auto op = static_cast<OpKind>(i);
    EXPECT_EQ(OpFromName(OpName(op)), op);
  }
  for (int i = 0; i < kNumAttrs; ++i) {
    const auto key = static_cast<AttrKey>(i);
    EXPECT_EQ(AttrFromName(AttrName(key)), key);
  }
  EXPECT_EQ(OpFromName("relu2"), std::nullopt);
  EXPECT_EQ(AttrFromName(""), std::nullopt);
}

TEST(Ops, ElementwiseTargetsMap) {
  EXPECT_EQ(ElementwiseFromAten("aten.relu.default"), OpKind::kRelu);
  EXPECT_EQ(ElementwiseFromAten("aten.mul.Scalar"), OpKind::kMul);
  EXPECT_EQ(ElementwiseFromAten("aten.mm.default"), std::nullopt);
}

TEST(Ops, OnlyTheOpaqueOpIsWithoutSynapseNode) {
  for (int i = 0; i < kNumOps; ++i) {
    const OpTraits& traits = Traits(static_cast<OpKind>(i));
    EXPECT_EQ(traits.guid.empty(), traits.op_class == OpClass::kOpaque) << traits.name;
  }
}

TEST(Ops, TypeSets) {
  EXPECT_TRUE(Contains(DTypeSet::kFloat, DType::kBF16));
  EXPECT_FALSE(Contains(DTypeSet::kFloat, DType::kI32));
  EXPECT_TRUE(Contains(DTypeSet::kInteger, DType::kBool));
  EXPECT_FALSE(Contains(DTypeSet::kNumber, DType::kBool));
  EXPECT_FALSE(Contains(DTypeSet::kAny, DType::kInvalid));
  EXPECT_FALSE(DeviceHolds(DType::kF64));
}

}  // namespace
}  // namespace hpu::ir
