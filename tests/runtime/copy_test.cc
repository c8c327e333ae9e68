#include "backend/runtime/copy.h"

#include <numeric>
#include <vector>

#include "backend/runtime/counters.h"
#include "backend/runtime/device_allocator.h"
#include "tests/runtime/device_environment.h"
#include "tests/runtime/hand_made_recipe.h"

namespace hpu::runtime {
namespace {

std::vector<int32_t> Counting(size_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

class CopyTest : public ::testing::Test {
 protected:
  CopyTest() : a_(*Allocate()), b_(*Allocate()) {}
  ~CopyTest() override {
    TestDevice().allocator().Free(&a_);
    TestDevice().allocator().Free(&b_);
  }
  static DeviceBlock* Allocate() {
    return *TestDevice().allocator().Allocate(kBytes, TestStream());
  }
  static constexpr uint64_t kBytes = uint64_t{1} << 20;

  DeviceBlock& a_;
  DeviceBlock& b_;
};

TEST_F(CopyTest, RoundTrip) {
  const std::vector<int32_t> in = Counting(kBytes / 4);
  std::vector<int32_t> out(in.size());
  const uint64_t before = GetCounters().bytes_to_device;
  EXPECT_OK(CopyToDevice(TestStream(), a_.address, in.data(), kBytes));
  EXPECT_OK(CopyOnDevice(TestStream(), b_.address, a_.address, kBytes));
  EXPECT_OK(CopyToHost(TestStream(), out.data(), b_.address, kBytes));
  EXPECT_EQ(out, in);
  EXPECT_EQ(GetCounters().bytes_to_device - before, kBytes);
}

TEST_F(CopyTest, ZeroBytesAreNothing) {
  EXPECT_OK(CopyToDevice(TestStream(), a_.address, nullptr, 0));
  EXPECT_OK(CopyToHost(TestStream(), nullptr, a_.address, 0));
  EXPECT_OK(CopyOnDevice(TestStream(), a_.address, b_.address, 0));
}

TEST_F(CopyTest, SmallCopyIntoABusyStreamDoesNotWait) {
  const int32_t value = 42;
  int32_t out = 0;
  {
    Gate gate(TestStream(1));
    EXPECT_OK(CopyToDevice(TestStream(1), a_.address, &value, sizeof(value)));
    EXPECT_FALSE(*TestStream(1).Query());  // the gate is still shut
  }
  EXPECT_OK(CopyToHost(TestStream(1), &out, a_.address, sizeof(out)));
  EXPECT_EQ(out, 42);
}

TEST_F(CopyTest, PinnedCopiesAreQueued) {
  HostBlock* pinned = *TestDevice().host_allocator().Allocate(kBytes);
  auto* words = static_cast<int32_t*>(pinned->data);
  words[0] = 7;
  words[kBytes / 4 - 1] = 9;
  {
    Gate gate(TestStream(1));
    EXPECT_OK(CopyToDevice(TestStream(1), a_.address, pinned->data, kBytes, /*may_defer=*/true));
    EXPECT_FALSE(*TestStream(1).Query());
  }
  std::vector<int32_t> out(kBytes / 4);
  EXPECT_OK(CopyToHost(TestStream(1), out.data(), a_.address, kBytes));
  EXPECT_EQ(out.front(), 7);
  EXPECT_EQ(out.back(), 9);
  TestDevice().host_allocator().Free(pinned);
}

TEST_F(CopyTest, FillsOfEveryWidth) {
  std::vector<uint8_t> out(16);
  EXPECT_OK(FillOnDevice(TestStream(), a_.address, 0xAB, 1, 4));
  EXPECT_OK(FillOnDevice(TestStream(), a_.address + 4, 0x1234, 2, 2));
  EXPECT_OK(FillOnDevice(TestStream(), a_.address + 8, 0xDEADBEEF, 4, 2));
  EXPECT_OK(CopyToHost(TestStream(), out.data(), a_.address, out.size()));
  EXPECT_EQ(out, (std::vector<uint8_t>{0xAB, 0xAB, 0xAB, 0xAB, 0x34, 0x12, 0x34, 0x12, 0xEF, 0xBE,
                                       0xAD, 0xDE, 0xEF, 0xBE, 0xAD, 0xDE}));
  EXPECT_EQ(FillOnDevice(TestStream(), a_.address, 0, 8, 1).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu::runtime
