#include "base/float16.h"

#include <gtest/gtest.h>

#include <limits>

namespace hpu {
namespace {

// A 16-bit format as IEEE 754 defines it: a sign, then the exponent, then kMantissa bits.
template <typename Float, int kMantissa>
struct Format {
  static constexpr uint16_t kInfinity = 0x7fff >> kMantissa << kMantissa;
  static constexpr uint16_t kQuiet = 1 << (kMantissa - 1);
  static constexpr int kBias = (kInfinity >> kMantissa) / 2;

  // Returns the value of finite bits; for kInfinity it is the power of two after the largest finite
  // value.
  static double Value(uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> kMantissa;
    const int mantissa = bits & ((1 << kMantissa) - 1);
    const int whole = exponent == 0 ? mantissa : mantissa + (1 << kMantissa);
    const double size = std::ldexp(whole, std::max(exponent, 1) - kBias - kMantissa);
    return (bits & 0x8000) != 0 ? -size : size;
  }
  static double Widened(uint16_t bits) { return static_cast<double>(std::bit_cast<Float>(bits)); }
  static uint16_t Rounded(double value) {
    return std::bit_cast<uint16_t>(static_cast<Float>(value));
  }
};

template <typename F>
class Float16Test : public testing::Test {};
using Formats = testing::Types<Format<BFloat16, 7>, Format<_Float16, 10>>;
TYPED_TEST_SUITE(Float16Test, Formats);

TYPED_TEST(Float16Test, EveryValueIsWidenedExactlyAndComesBack) {
  using F = TypeParam;
  for (uint32_t i = 0; i <= 0xffff; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const uint16_t size = bits & 0x7fff;
    const double value = F::Widened(bits);
    ASSERT_EQ(std::signbit(value), bits > 0x7fff) << std::hex << bits;
    if (size > F::kInfinity) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
      ASSERT_EQ(F::Rounded(value) | F::kQuiet, bits | F::kQuiet);
      continue;
    }
    const double infinity = std::numeric_limits<double>::infinity();
    const double wanted = size == F::kInfinity ? std::copysign(infinity, value) : F::Value(bits);
    ASSERT_EQ(value, wanted) << std::hex << bits;
    ASSERT_EQ(F::Rounded(value), bits);
  }
}

// This checks between each two neighbours, including subnormal ones and infinity.
TYPED_TEST(Float16Test, RoundsToTheNearestAndTiesToTheEvenOne) {
  using F = TypeParam;
  for (uint16_t lower = 0; lower < F::kInfinity; ++lower) {
    const auto upper = static_cast<uint16_t>(lower + 1);
    const auto tie = static_cast<float>((F::Value(lower) + F::Value(upper)) / 2);
    const uint16_t even = lower % 2 == 0 ? lower : upper;
    for (const uint16_t sign : {0, 0x8000}) {
      const auto signed_value = [&](float size) { return sign == 0 ? size : -size; };
      ASSERT_EQ(F::Rounded(signed_value(tie)), sign | even) << std::hex << lower;
      ASSERT_EQ(F::Rounded(signed_value(std::nextafter(tie, 0.0f))), sign | lower);
      ASSERT_EQ(F::Rounded(signed_value(std::nextafter(tie, HUGE_VALF))), sign | upper);
    }
  }
}

TYPED_TEST(Float16Test, WhatIsTooLargeOrTooSmallKeepsItsSign) {
  using F = TypeParam;
  EXPECT_EQ(F::Rounded(std::numeric_limits<double>::max()), F::kInfinity);
  EXPECT_EQ(F::Rounded(std::numeric_limits<double>::lowest()), 0x8000 | F::kInfinity);
  EXPECT_EQ(F::Rounded(-std::numeric_limits<double>::denorm_min()), 0x8000);
}

// f16 is rounded from f64 in one step, and bf16 in two, as in PyTorch: 1 + 2^-8 + 2^-40 is a tie in
// f32.
TEST(Float16, OnlyBfloat16GoesByWayOfF32) {
  const auto bits = [](auto value) { return std::bit_cast<uint16_t>(value); };
  EXPECT_EQ(bits(static_cast<_Float16>(1 + 0x1p-11 + 0x1p-40)), 0x3c01);
  EXPECT_EQ(bits(BFloat16(1 + 0x1p-8 + 0x1p-40)), 0x3f80);
}

}  // namespace
}  // namespace hpu
