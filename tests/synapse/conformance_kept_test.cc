// The values that a recipe computes from weights alone are kept, and are never stale.
#include <algorithm>
#include <utility>

#include "synapse/include/synapse_emulator.h"
#include "tests/synapse/launch_fixture.h"

namespace hpu {
namespace {

class KeptTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    x_ = Allocate(kBytes);
    Upload(std::vector<int32_t>(kCount, 100), x_);
    recipe_ = LoadRecipe(emulator::KeptAddRecipe(kCount));
  }
  // Returns the result, and how many kernels it took.
  std::pair<int32_t, uint64_t> Sum(uint64_t a, uint64_t b) {
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    const uint64_t before = Counter("kernels");
    EXPECT_SUCCESS(Launch(recipe_, {a, b, x_, out_}));
    const auto values = Download(out_, kCount);
    for (const int32_t value : values) EXPECT_EQ(value, values[0]);
    return {values[0], Counter("kernels") - before};
  }
  using Result = std::pair<int32_t, uint64_t>;
  static constexpr uint64_t kAnew = 2, kKept = 1;  // kernels

  uint64_t x_ = 0;
  synRecipeHandle recipe_ = nullptr;
};

TEST_F(KeptTest, TheFirstLaunchComputesIt) {
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew));
  EXPECT_EQ(Sum(a_, b_), Result(111, kKept));
  Upload(std::vector<int32_t>(kCount, 200), x_);
  EXPECT_EQ(Sum(a_, b_), Result(211, kKept)) << "x is no weight";
}

TEST_F(KeptTest, EveryChangeOfAnyWeightIsSeen) {
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew));
  Upload(std::vector<int32_t>(kCount, 2), a_);
  EXPECT_EQ(Sum(a_, b_), Result(112, kAnew));
  Upload(std::vector<int32_t>(kCount, 20), b_);
  EXPECT_EQ(Sum(a_, b_), Result(122, kAnew));
  EXPECT_EQ(Sum(a_, b_), Result(122, kKept));
  EXPECT_SUCCESS(api_->synMemsetD32Async(b_, 30, kCount, stream_));
  EXPECT_EQ(Sum(a_, b_), Result(132, kAnew));
  EXPECT_SUCCESS(api_->synMemCopyAsync(stream_, a_, kBytes, b_, DRAM_TO_DRAM));
  EXPECT_EQ(Sum(a_, b_), Result(104, kAnew));
  // Another recipe writes it: b = a + x.
  const synRecipeHandle add = LoadRecipe(emulator::AddRecipe(kCount));
  EXPECT_SUCCESS(Launch(add, {a_, x_, b_}));
  EXPECT_EQ(Sum(a_, b_), Result(204, kAnew));
  auto* host = reinterpret_cast<int32_t*>(b_);
  std::fill(host, host + kCount, 6);
  EXPECT_SUCCESS(api_->synEmulatorHostWrite(b_ + kBytes - 1, 1));
  EXPECT_EQ(Sum(a_, b_), Result(108, kAnew));
  EXPECT_SUCCESS(api_->synMemsetD32Async(x_, 0, kCount, stream_));
  EXPECT_EQ(Sum(a_, b_), Result(8, kKept));
  // The memory is freed and allocated again with other contents.
  EXPECT_SUCCESS(api_->synDeviceFree(device_, b_, 0));
  uint64_t again = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, kBytes, b_, 0, &again));
  ASSERT_EQ(again, b_);
  std::fill(host, host + kCount, 7);
  EXPECT_EQ(Sum(a_, b_), Result(9, kAnew));
}

TEST_F(KeptTest, OtherWeightsAreOthers) {
  const uint64_t other = Allocate(kBytes);
  Upload(std::vector<int32_t>(kCount, 5), other);
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew));
  EXPECT_EQ(Sum(a_, other), Result(106, kAnew));
  EXPECT_EQ(Sum(other, b_), Result(115, kAnew));
  EXPECT_EQ(Sum(a_, b_), Result(111, kKept)) << "of earlier ones";
  recipe_ = LoadRecipe(emulator::KeptAddRecipe(kCount));
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew)) << "another recipe keeps its own";
}

TEST_F(KeptTest, ItGoesWithItsRecipeAndWithItsWeights) {
  const uint64_t before = Counter("pack_bytes");
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew));
  EXPECT_GE(Counter("pack_bytes"), before + kBytes);
  EXPECT_SUCCESS(api_->synRecipeDestroy(recipe_));
  EXPECT_EQ(Counter("pack_bytes"), before);
  recipe_ = LoadRecipe(emulator::KeptAddRecipe(kCount));
  EXPECT_EQ(Sum(a_, b_), Result(111, kAnew));
  EXPECT_SUCCESS(api_->synDeviceFree(device_, b_, 0));
  EXPECT_EQ(Counter("pack_bytes"), before);
}

// Writes and launches alternate without any synchronisation between them.
TEST_F(KeptTest, ItFollowsTheStreamsOrder) {
  constexpr int kRounds = 200;
  std::vector<uint64_t> outs;
  for (int i = 0; i < kRounds; ++i) outs.push_back(Allocate(kBytes));
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_SUCCESS(api_->synMemsetD32Async(a_, static_cast<uint32_t>(i / 2), kCount, stream_));
    EXPECT_SUCCESS(Launch(recipe_, {a_, b_, x_, outs[static_cast<size_t>(i)]}));
  }
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(Download(outs[static_cast<size_t>(i)], kCount),
              std::vector<int32_t>(kCount, i / 2 + 110));
  }
}

// A launch that comes while another launch computes the value waits for it.
TEST_F(KeptTest, StreamsShareIt) {
  constexpr int kStreams = 4, kRounds = 50;
  std::vector<synStreamHandle> streams(kStreams);
  std::vector<uint64_t> outs;
  for (synStreamHandle& stream : streams) {
    EXPECT_SUCCESS(api_->synStreamCreateGeneric(&stream, device_, 0));
    outs.push_back(Allocate(kBytes));
  }
  for (int round = 0; round < kRounds; ++round) {
    EXPECT_SUCCESS(api_->synMemsetD32Async(b_, static_cast<uint32_t>(round), kCount, stream_));
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    for (size_t s = 0; s < streams.size(); ++s) {
      EXPECT_SUCCESS(Launch(recipe_, {a_, b_, x_, outs[s]}, streams[s]));
    }
    for (size_t s = 0; s < streams.size(); ++s) {
      EXPECT_SUCCESS(api_->synStreamSynchronize(streams[s]));
      ASSERT_EQ(Download(outs[s], kCount), std::vector<int32_t>(kCount, round + 101));
    }
  }
  for (const synStreamHandle stream : streams) EXPECT_SUCCESS(api_->synStreamDestroy(stream));
}

}  // namespace
}  // namespace hpu
