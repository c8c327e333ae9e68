// Packed copies of operands are never stale, are shared, and are the only copies in memory when in
// steady use.
#include <algorithm>

#include "synapse/include/synapse_emulator.h"
#include "tests/synapse/launch_fixture.h"

namespace hpu {
namespace {

using PackedTest = LaunchTest;

// The next launch must see every way to change the source of a packed copy.
TEST_F(PackedTest, PackedCopiesAreNeverStale) {
  const synRecipeHandle packed = LoadRecipe(emulator::PackedAddRecipe(kCount));
  EXPECT_EQ(Run(packed), 11);
  const uint64_t packs = Counter("packs");
  EXPECT_EQ(Run(packed), 11);
  EXPECT_EQ(Counter("packs"), packs) << "an unchanged source is packed once";
  Upload(std::vector<int32_t>(kCount, 2), a_);
  EXPECT_EQ(Run(packed), 12);
  EXPECT_SUCCESS(api_->synMemsetD32Async(a_, 3, kCount, stream_));
  EXPECT_EQ(Run(packed), 13);
  EXPECT_SUCCESS(api_->synMemsetD32Async(out_, 4, kCount, stream_));
  EXPECT_SUCCESS(api_->synMemCopyAsync(stream_, out_, kBytes, a_, DRAM_TO_DRAM));
  EXPECT_EQ(Run(packed), 14);
  // Another recipe writes the source: a = b + b.
  const synRecipeHandle add = LoadRecipe(emulator::AddRecipe(kCount));
  const uint64_t b2 = Allocate(kBytes);
  Upload(std::vector<int32_t>(kCount, 10), b2);
  EXPECT_SUCCESS(Launch(add, {b_, b2, a_}));
  EXPECT_EQ(Run(packed), 30);
  // The host writes the source.
  auto* host = reinterpret_cast<int32_t*>(a_);
  std::fill(host, host + kCount, 6);
  EXPECT_SUCCESS(api_->synEmulatorHostWrite(a_ + kBytes - 1, 1));
  EXPECT_EQ(Run(packed), 16);
  // One element in the middle of the source changes.
  EXPECT_SUCCESS(api_->synMemsetD32Async(a_ + kBytes / 2, 100, 1, stream_));
  EXPECT_SUCCESS(Launch(packed, {a_, b_, out_}));
  EXPECT_EQ(Download(out_, kCount)[kCount / 2], 110);
  // The memory is freed and allocated again with other contents.
  EXPECT_SUCCESS(api_->synDeviceFree(device_, a_, 0));
  uint64_t again = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, kBytes, a_, 0, &again));
  EXPECT_EQ(again, a_);
  auto* fresh = reinterpret_cast<int32_t*>(again);
  std::fill(fresh, fresh + kCount, 8);
  EXPECT_EQ(Run(packed), 18);
}

// The weights of a served model exist once: the pages of a source whose copy is in steady use go
// back to the system, and every way to reach the source restores its bytes first.
TEST_F(PackedTest, SourcesOfPackedCopiesLeaveMemoryAndComeBack) {
  constexpr uint64_t kLong = 40'000;
  constexpr uint64_t kLongBytes = kLong * 4;
  std::vector<int32_t> values(kLong);
  for (uint64_t i = 0; i < kLong; ++i) values[i] = static_cast<int32_t>(i);
  const uint64_t source = Allocate(kLongBytes), ones = Allocate(kLongBytes);
  const uint64_t out = Allocate(kLongBytes);
  Upload(values, source);
  Upload(std::vector<int32_t>(kLong, 1), ones);
  const synRecipeHandle packed = LoadRecipe(emulator::PackedAddRecipe(kLong));
  const synRecipeHandle add = LoadRecipe(emulator::AddRecipe(kLong));
  const auto expect_sum = [&](const std::string& when) {
    const auto sums = Download(out, kLong);
    for (uint64_t i = 0; i < kLong; ++i) ASSERT_EQ(sums[i], values[i] + 1) << when << " at " << i;
  };
  // Launches until the source has left memory; each gives the right result.
  const auto evict = [&](const std::string& when) {
    for (int launch = 0; launch < 20'000 && Counter("source_bytes_evicted") == 0; ++launch) {
      EXPECT_SUCCESS(Launch(packed, {source, ones, out}));
      EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    }
    ASSERT_EQ(Counter("source_bytes_evicted"), kLongBytes) << when;
    if (api_->host_addressable()) {
      ASSERT_EQ(reinterpret_cast<const int32_t*>(source)[kLong / 2], 0) << when;
    }
    expect_sum(when);
  };
  evict("first");
  EXPECT_SUCCESS(Launch(packed, {source, ones, out}));
  expect_sum("from the copy alone");

  EXPECT_EQ(Download(source, kLong), values) << "copied to the host";
  EXPECT_EQ(Counter("source_bytes_evicted"), 0u);
  evict("after a copy to the host");

  EXPECT_SUCCESS(Launch(add, {source, ones, out}));  // another recipe reads it directly
  expect_sum("read directly");
  evict("after a launch that reads it");

  EXPECT_SUCCESS(api_->synMemsetD32Async(source + 40, 7, 1, stream_));
  values[10] = 7;
  EXPECT_EQ(Download(source, kLong), values) << "one element was written";
  evict("after a write of one element");
}

TEST_F(PackedTest, TheHostReachesAnEvictedSourceWithinAnAccess) {
  constexpr uint64_t kLong = 40'000;
  const uint64_t source = Allocate(kLong * 4), ones = Allocate(kLong * 4);
  const uint64_t out = Allocate(kLong * 4);
  Upload(std::vector<int32_t>(kLong, 5), source);
  Upload(std::vector<int32_t>(kLong, 1), ones);
  const synRecipeHandle packed = LoadRecipe(emulator::PackedAddRecipe(kLong));
  const auto launch = [&](int times) {
    for (int i = 0; i < times; ++i) EXPECT_SUCCESS(Launch(packed, {source, ones, out}));
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  };
  launch(3);
  ASSERT_EQ(Counter("source_bytes_evicted"), kLong * 4);
  EXPECT_SUCCESS(api_->synEmulatorHostAccessBegin(source + 8000, 4));
  auto* host = reinterpret_cast<int32_t*>(source);
  EXPECT_EQ(host[kLong / 2], 5);
  launch(20);
  EXPECT_EQ(host[kLong / 2], 5) << "it stays during the access";
  host[kLong / 2] = 6;
  EXPECT_SUCCESS(api_->synEmulatorHostWrite(source + kLong * 2, 4));
  EXPECT_SUCCESS(api_->synEmulatorHostAccessEnd());
  EXPECT_STATUS(synInvalidArgument, api_->synEmulatorHostAccessEnd());
  launch(1);
  EXPECT_EQ(Download(out, kLong)[kLong / 2], 7);
  // If it is freed while it is evicted, the memory comes back like any other.
  launch(100);
  ASSERT_EQ(Counter("source_bytes_evicted"), kLong * 4);
  EXPECT_SUCCESS(api_->synDeviceFree(device_, source, 0));
  EXPECT_EQ(Counter("source_bytes_evicted"), 0u);
}

TEST_F(PackedTest, PackedCopiesAreSharedBetweenRecipes) {
  const synRecipeHandle first = LoadRecipe(emulator::PackedAddRecipe(kCount));
  const synRecipeHandle second = LoadRecipe(emulator::PackedAddRecipe(kCount));
  EXPECT_EQ(Run(first), 11);
  const uint64_t packs = Counter("packs");
  EXPECT_EQ(Run(second), 11);
  EXPECT_EQ(Counter("packs"), packs);
}

// The order is asynchronous: writes and launches alternate without any synchronisation between
// them.
TEST_F(PackedTest, PackedCopiesFollowTheStreamsOrder) {
  const synRecipeHandle packed = LoadRecipe(emulator::PackedAddRecipe(kCount));
  constexpr int kRounds = 200;
  std::vector<uint64_t> outs;
  for (int i = 0; i < kRounds; ++i) outs.push_back(Allocate(kBytes));
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_SUCCESS(api_->synMemsetD32Async(a_, static_cast<uint32_t>(i), kCount, stream_));
    EXPECT_SUCCESS(Launch(packed, {a_, b_, outs[static_cast<size_t>(i)]}));
  }
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(Download(outs[static_cast<size_t>(i)], kCount), std::vector<int32_t>(kCount, i + 10));
  }
}

}  // namespace
}  // namespace hpu
