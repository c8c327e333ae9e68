#include "base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace hpu {
namespace {

// These are the kat_vectors of Random123 (Salmon et al.), lines "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AStreamIsOfTheWholeSeedAndCountsIn64Bits) {
  EXPECT_EQ(PhiloxBlockOf(0x299f31d0a4093822, 0x85a308d3243f6a88),
            Philox({0x243f6a88, 0x85a308d3, 0, 0}, {0xa4093822, 0x299f31d0}));
}

TEST(Philox, BlocksOfADraw) {
  EXPECT_EQ(PhiloxBlocks(0), 0U);
  EXPECT_EQ(PhiloxBlocks(1), 1U);
  EXPECT_EQ(PhiloxBlocks(4), 1U);
  EXPECT_EQ(PhiloxBlocks(5), 2U);
}

// For n = 2^20 numbers, the mean of uniform numbers has variance 1 / 12 n, and the mean of their
// squares has variance (1/5 - 1/9) / n. A deviation of six standard deviations happens by chance
// once in 5e8 seeds. 64 bins have a chi-square of 63 +- sqrt(126) degrees; 63 + 6 sqrt(126) =
// 130.3.
TEST(Philox, NumbersAreUniform) {
  constexpr int kCount = 1 << 20;
  constexpr int kBins = 64;
  double sum = 0, squares = 0;
  std::vector<int> bins(kBins);
  for (int i = 0; i < kCount; ++i) {
    const float number = UniformFromBits(PhiloxBlockOf(5, static_cast<uint64_t>(i / 4))[i % 4]);
    ASSERT_TRUE(number >= 0 && number < 1) << number;
    sum += number;
    squares += double{number} * number;
    ++bins[static_cast<size_t>(number * kBins)];
  }
  EXPECT_NEAR(sum / kCount, 0.5, 6 / std::sqrt(12.0 * kCount));
  EXPECT_NEAR(squares / kCount, 1 / 3.0, 6 * std::sqrt((1 / 5.0 - 1 / 9.0) / kCount));
  double chi_square = 0;
  for (const int bin : bins) {
    const double expected = kCount / double{kBins};
    chi_square += (bin - expected) * (bin - expected) / expected;
  }
  EXPECT_LT(chi_square, 130.3);
}

TEST(Philox, TheLargestNumberIsBelowOne) {
  EXPECT_LT(UniformFromBits(0xffffffff), 1.0F);
  EXPECT_EQ(UniformFromBits(0), 0.0F);
}

}  // namespace
}  // namespace hpu
