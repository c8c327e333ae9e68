#include "base/bytes.h"

#include <gtest/gtest.h>

namespace hpu {
namespace {

TEST(Bytes, RoundTripsEveryForm) {
  ByteWriter out;
  out.Put<uint8_t>(7);
  out.Put<int64_t>(-5);
  out.PutString("gemm");
  out.PutVector(std::vector<int64_t>{1, -2, 3});
  out.PutBytes(std::vector<uint8_t>{9, 8});
  out.Align(16);
  EXPECT_EQ(out.size() % 16, 0u);

  ByteReader in(out.bytes());
  uint8_t small = 0;
  int64_t number = 0;
  std::string text;
  std::vector<int64_t> values;
  std::span<const uint8_t> data;
  ASSERT_TRUE(in.Get(&small).ok());
  ASSERT_TRUE(in.Get(&number).ok());
  ASSERT_TRUE(in.GetString(&text).ok());
  ASSERT_TRUE(in.GetVector(&values).ok());
  ASSERT_TRUE(in.GetBytes(&data).ok());
  ASSERT_TRUE(in.Align(16).ok());
  EXPECT_EQ(small, 7);
  EXPECT_EQ(number, -5);
  EXPECT_EQ(text, "gemm");
  EXPECT_EQ(values, (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(data.size(), 2u);
  EXPECT_EQ(in.remaining(), 0u);
}

TEST(Bytes, TruncationIsDataLossAtEveryLength) {
  ByteWriter out;
  out.PutString("name");
  out.PutVector(std::vector<int64_t>{1, 2});
  for (size_t length = 0; length < out.size(); ++length) {
    ByteReader in(std::span(out.bytes()).first(length));
    std::string text;
    std::vector<int64_t> values;
    absl::Status status = in.GetString(&text);
    if (status.ok()) status = in.GetVector(&values);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "at length " << length;
  }
}

TEST(Bytes, HugeCountDoesNotAllocate) {
  ByteWriter out;
  out.Put<uint32_t>(0xFFFFFFFF);
  ByteReader in(out.bytes());
  std::vector<int64_t> values;
  EXPECT_EQ(in.GetVector(&values).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(values.capacity(), 0u);
}

TEST(Bytes, PaddingMustBeZero) {
  const std::vector<uint8_t> data = {1, 1, 0, 0};
  ByteReader in(data);
  uint8_t first = 0;
  ASSERT_TRUE(in.Get(&first).ok());
  EXPECT_EQ(in.Align(4).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hpu
