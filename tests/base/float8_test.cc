#include "base/float8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace hpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::vector<double> Rounded(const std::vector<double>& values) {
  std::vector<double> rounded;
  for (const double value : values) rounded.push_back(static_cast<double>(T(value)));
  return rounded;
}

TEST(Float8, KeepsEveryNumberOfItsOwn) {
  for (int code = 0; code < 256; ++code) {
    const auto e4m3 = static_cast<double>(std::bit_cast<Float8E4M3>(static_cast<uint8_t>(code)));
    const auto e5m2 = static_cast<double>(std::bit_cast<Float8E5M2>(static_cast<uint8_t>(code)));
    EXPECT_EQ(std::isnan(e4m3), (code & 0x7f) == 0x7f);
    EXPECT_EQ(std::isnan(e5m2), (code & 0x7f) > 0x7c);
    if (!std::isnan(e4m3)) EXPECT_EQ(std::bit_cast<uint8_t>(Float8E4M3(e4m3)), code);
    if (!std::isnan(e5m2)) EXPECT_EQ(std::bit_cast<uint8_t>(Float8E5M2(e5m2)), code);
  }
}

TEST(Float8, RoundsToNearestWithTiesToEven) {
  EXPECT_EQ(Rounded<Float8E4M3>({1.0625, 1.1875, -1.07, 0x1p-9, 0x1p-10, 0x1.8p-9, 0x1.1p-10}),
            (std::vector<double>{1, 1.25, -1.125, 0x1p-9, 0, 0x1p-8, 0x1p-9}));
  EXPECT_EQ(Rounded<Float8E5M2>({1.125, 1.375, 0x1p-16, 0x1p-17, 0x1.8p-16}),
            (std::vector<double>{1, 1.5, 0x1p-16, 0, 0x1p-15}));
}

TEST(Float8, HasTheLimitsOfItsFormat) {
  EXPECT_EQ(Rounded<Float8E4M3>({448, 465, -1e9, kInfinity}),
            (std::vector<double>{448, 448, -448, 448}));
  EXPECT_EQ(Rounded<Float8E5M2>({57344, 61439, 61440, -kInfinity}),
            (std::vector<double>{57344, 57344, kInfinity, -kInfinity}));
  EXPECT_TRUE(std::isnan(static_cast<double>(Float8E4M3(NAN))));
  EXPECT_TRUE(std::isnan(static_cast<double>(Float8E5M2(NAN))));
}

}  // namespace
}  // namespace hpu
