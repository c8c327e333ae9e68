// Tests streams and events (4.4). A recipe that waits for the host makes sure that work is pending.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/synapse/fixture.h"
#include "tests/synapse/test_recipes.h"

namespace hpu {
namespace {

class ConformanceStreamTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!api_->is_emulator()) GTEST_SKIP() << "needs recipes built by hand";
    recipe_ = LoadRecipe(emulator::GatedAddRecipe(kCount));
    gate_ = Allocate(128);
    a_ = Allocate(4 * kCount);
    b_ = Allocate(4 * kCount);
    out_ = Allocate(4 * kCount);
    Upload(std::vector<int32_t>(kCount, 1), a_);
    Upload(std::vector<int32_t>(kCount, 2), b_);
    Close();
  }
  void TearDown() override {
    if (gate_ != 0) Open();
    DeviceTest::TearDown();
  }
  // Device addresses are host pointers here, so the gate works while a launch runs.
  void Open() { std::atomic_ref(*reinterpret_cast<int32_t*>(gate_)).store(1); }
  void Close() { std::atomic_ref(*reinterpret_cast<int32_t*>(gate_)).store(0); }
  synStatus LaunchGated(synStreamHandle stream) {
    return Launch(recipe_, {gate_, a_, b_, out_}, stream);
  }
  synEventHandle MakeEvent(uint32_t flags = 0) {
    synEventHandle event = nullptr;
    EXPECT_SUCCESS(api_->synEventCreate(&event, device_, flags));
    return event;
  }

  static constexpr uint64_t kCount = 1000;
  synRecipeHandle recipe_ = nullptr;
  uint64_t gate_ = 0, a_ = 0, b_ = 0, out_ = 0;
};

TEST_F(ConformanceStreamTest, LaunchIsAsynchronous) {
  EXPECT_SUCCESS(api_->synStreamQuery(stream_));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_STATUS(synBusy, api_->synStreamQuery(stream_));
  EXPECT_STATUS(synBusy, api_->synStreamDestroy(stream_));
  Open();
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synStreamQuery(stream_));
  EXPECT_EQ(Download(out_, kCount), std::vector<int32_t>(kCount, 3));
  EXPECT_SUCCESS(api_->synStreamDestroy(stream_));
  EXPECT_STATUS(synInvalidArgument, api_->synStreamDestroy(stream_));
}

TEST_F(ConformanceStreamTest, OtherStreamsGoOn) {
  synStreamHandle other = nullptr;
  EXPECT_SUCCESS(api_->synStreamCreateGeneric(&other, device_, 0));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_SUCCESS(api_->synMemsetD32Async(a_, 5, 1, other));
  EXPECT_SUCCESS(api_->synStreamSynchronize(other));
  EXPECT_STATUS(synBusy, api_->synStreamQuery(stream_));
}

TEST_F(ConformanceStreamTest, EventStates) {
  const synEventHandle event = MakeEvent();
  EXPECT_SUCCESS(api_->synEventQuery(event));
  EXPECT_SUCCESS(api_->synEventSynchronize(event));
  EXPECT_SUCCESS(api_->synStreamWaitEvent(stream_, event, 0));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_SUCCESS(api_->synEventRecord(event, stream_));
  EXPECT_STATUS(synBusy, api_->synEventQuery(event));
  Open();
  EXPECT_SUCCESS(api_->synEventSynchronize(event));
  EXPECT_SUCCESS(api_->synEventQuery(event));
  EXPECT_SUCCESS(api_->synEventDestroy(event));
  EXPECT_STATUS(synInvalidEventHandle, api_->synEventQuery(event));
  EXPECT_STATUS(synInvalidEventHandle, api_->synStreamWaitEvent(stream_, event, 0));
}

// 4.4: wait uses the capture at the time of the call, even if the event is recorded again.
TEST_F(ConformanceStreamTest, WaitUsesTheCaptureOfItsTime) {
  synStreamHandle other = nullptr;
  EXPECT_SUCCESS(api_->synStreamCreateGeneric(&other, device_, 0));
  const synEventHandle event = MakeEvent();
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_SUCCESS(api_->synEventRecord(event, stream_));
  EXPECT_SUCCESS(api_->synStreamWaitEvent(other, event, 0));
  EXPECT_SUCCESS(api_->synMemCopyAsync(other, out_, 4 * kCount, a_, DRAM_TO_DRAM));
  EXPECT_SUCCESS(api_->synEventRecord(event, stream_));
  EXPECT_SUCCESS(api_->synEventDestroy(event));
  EXPECT_STATUS(synBusy, api_->synStreamQuery(other));
  Open();
  EXPECT_SUCCESS(api_->synStreamSynchronize(other));
  EXPECT_EQ(Download(a_, 1)[0], 3);
}

TEST_F(ConformanceStreamTest, ElapsedTime) {
  const synEventHandle plain = MakeEvent();
  const synEventHandle start = MakeEvent(EVENT_COLLECT_TIME);
  const synEventHandle end = MakeEvent(EVENT_COLLECT_TIME);
  uint64_t time = 0;
  EXPECT_STATUS(synInvalidArgument, api_->synEventElapsedTime(&time, plain, nullptr));
  EXPECT_STATUS(synObjectNotInitialized, api_->synEventElapsedTime(&time, start, end));
  EXPECT_SUCCESS(api_->synEventRecord(start, stream_));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_SUCCESS(api_->synEventRecord(end, stream_));
  EXPECT_SUCCESS(api_->synEventSynchronize(start));
  EXPECT_STATUS(synBusy, api_->synEventElapsedTime(&time, start, end));
  // The elapsed time is what is tested, so some has to pass.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  Open();
  EXPECT_SUCCESS(api_->synEventSynchronize(end));
  EXPECT_SUCCESS(api_->synEventElapsedTime(&time, start, end));
  EXPECT_GE(time, 5'000'000u);
  EXPECT_LT(time, 60'000'000'000u);
}

// 4.6: an external tensor signals while its recipe's stream still counts as busy, or later.
TEST_F(ConformanceStreamTest, ExternalTensorSignals) {
  const synEventHandle event = MakeEvent();
  auto table = Table({gate_, a_, b_, out_});
  uint64_t ids[3] = {};
  uint64_t amount = 0;
  const synRecipeAttribute attribute = RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS;
  EXPECT_SUCCESS(api_->synRecipeGetAttribute(&amount, &attribute, 1, recipe_));
  EXPECT_EQ(amount, 1u);
  EXPECT_SUCCESS(api_->synTensorExtExtractExecutionOrder(recipe_, 3, ids));
  EXPECT_EQ(ids[0], 3u);
  EXPECT_EQ(ids[1], 0xFFFFFFFFu);
  synEventHandle events[] = {event};
  // The event is not mapped, or is mapped to a tensor that is not external.
  EXPECT_STATUS(synInvalidEventHandle, api_->synLaunchWithExternalEvents(stream_, table.data(), 4,
                                                                         0, recipe_, events, 1, 0));
  EXPECT_STATUS(synFail, api_->synEventMapTensor(events, 1, &table[0], recipe_));
  EXPECT_SUCCESS(api_->synEventMapTensor(events, 1, &table[3], recipe_));
  EXPECT_SUCCESS(
      api_->synLaunchWithExternalEvents(stream_, table.data(), 4, 0, recipe_, events, 1, 0));
  EXPECT_STATUS(synBusy, api_->synEventQuery(event));
  synStreamHandle other = nullptr;
  EXPECT_SUCCESS(api_->synStreamCreateGeneric(&other, device_, 0));
  EXPECT_SUCCESS(api_->synStreamWaitEvent(other, event, 0));
  EXPECT_SUCCESS(api_->synMemCopyAsync(other, out_, 4 * kCount, a_, DRAM_TO_DRAM));
  Open();
  EXPECT_SUCCESS(api_->synStreamSynchronize(other));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_EQ(Download(a_, kCount), std::vector<int32_t>(kCount, 3));
}

TEST_F(ConformanceStreamTest, FailureOfRunningWorkSurfacesAtSynchronisation) {
  Open();
  EXPECT_SUCCESS(api_->synConfigurationSet("HPU_EMULATOR_FAULTS", "execution:1=32"));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_STATUS(synAssertAsync, api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(LaunchGated(stream_));
  EXPECT_SUCCESS(api_->synDeviceSynchronize(device_));
}

TEST_F(ConformanceStreamTest, ThreadsShareStreams) {
  Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      synStreamHandle own = nullptr;
      ASSERT_EQ(api_->synStreamCreateGeneric(&own, device_, 0), synSuccess);
      for (int i = 0; i < 100; ++i) {
        ASSERT_EQ(LaunchGated(t % 2 == 0 ? own : stream_), synSuccess);
        if (i % 10 == 0) {
          ASSERT_EQ(api_->synStreamSynchronize(stream_), synSuccess);
        }
      }
      ASSERT_EQ(api_->synStreamSynchronize(own), synSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_SUCCESS(api_->synDeviceSynchronize(device_));
  EXPECT_EQ(Download(out_, kCount), std::vector<int32_t>(kCount, 3));
}

}  // namespace
}  // namespace hpu
