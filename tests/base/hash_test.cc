#include "base/hash.h"

#include <gtest/gtest.h>

namespace hpu {
namespace {

std::span<const uint8_t> AsBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The vector is from FIPS 180-2, appendix B.1.
TEST(Hash, Sha256OfAbc) {
  EXPECT_EQ(ToHex(Sha256(AsBytes("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, FieldsAreFramed) {
  EXPECT_NE(Hasher().Field("ab").Field("c").Finish(), Hasher().Field("a").Field("bc").Finish());
}

TEST(Hash, RawEqualsOneShot) {
  EXPECT_EQ(Hasher().Raw("ab", 2).Raw("c", 1).Finish(), Sha256(AsBytes("abc")));
}

TEST(Hash, HexRoundTripsAndRefuses) {
  const Digest digest = Sha256(AsBytes("x"));
  EXPECT_EQ(DigestFromHex(ToHex(digest)), digest);
  EXPECT_EQ(DigestFromHex("00"), std::nullopt);
  EXPECT_EQ(DigestFromHex(std::string(64, 'g')), std::nullopt);
}

}  // namespace
}  // namespace hpu
