#include "backend/runtime/stream.h"

#include <thread>

#include "backend/runtime/copy.h"
#include "backend/runtime/device_allocator.h"
#include "tests/eventually.h"
#include "tests/runtime/device_environment.h"
#include "tests/runtime/hand_made_recipe.h"

namespace hpu::runtime {
namespace {

TEST(Stream, BusyUntilItsWorkEnds) {
  Stream& stream = TestStream(1);
  EXPECT_TRUE(*stream.Query());
  Gate gate(stream);
  EXPECT_FALSE(*stream.Query());
  EXPECT_TRUE(*TestStream(2).Query());  // other streams are independent
  gate.Open();
  EXPECT_OK(stream.Synchronize());
  EXPECT_TRUE(*stream.Query());
}

TEST(Stream, WaitsForAnotherStream) {
  Gate gate(TestStream(1));
  Event tail;
  EXPECT_OK(tail.Record(TestStream(1)));
  EXPECT_OK(TestStream(2).Wait(tail));
  Event behind;
  EXPECT_OK(behind.Record(TestStream(2)));
  EXPECT_FALSE(*behind.Query());
  gate.Open();
  EXPECT_OK(behind.Synchronize());
  EXPECT_TRUE(*behind.Query());
}

TEST(Event, NeverRecordedIsComplete) {
  Event event;
  EXPECT_TRUE(*event.Query());
  EXPECT_OK(event.Synchronize());
  EXPECT_OK(TestStream().Wait(event));
}

TEST(Event, CapturesTheTailAtTheTimeOfRecording) {
  Event before;
  Event after;
  EXPECT_OK(before.Record(TestStream(1)));
  Gate gate(TestStream(1));
  EXPECT_OK(after.Record(TestStream(1)));
  EXPECT_OK(before.Synchronize());
  EXPECT_FALSE(*after.Query());
}

TEST(Event, ElapsedTimeNeedsTimingAndCompletion) {
  Event start(/*timing=*/true);
  Event end(/*timing=*/true);
  Event plain;
  EXPECT_EQ(start.ElapsedMs(plain).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(start.ElapsedMs(end).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_OK(start.Record(TestStream(1)));
  {
    Gate gate(TestStream(1));
    EXPECT_OK(end.Record(TestStream(1)));
    EXPECT_EQ(start.ElapsedMs(end).status().code(), absl::StatusCode::kFailedPrecondition);
    // The elapsed time is what is tested, so some has to pass.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const absl::StatusOr<double> elapsed = start.ElapsedMs(end);
  ASSERT_TRUE(elapsed.ok()) << ToText(elapsed.status());
  EXPECT_GE(*elapsed, 19.0);
  EXPECT_LT(*elapsed, static_cast<double>(kHangLimit.count()));
}

// In strict mode a stream waits for an event first, as on a card.
TEST(Stream, FailuresAreReportedOnce) {
  if (TestDevice().properties().host_addressable) GTEST_SKIP() << "EMULATOR_STRICT is not set";
  DeviceBlock* const block = *TestDevice().allocator().Allocate(512, TestStream(1));
  EXPECT_OK(FillOnDevice(TestStream(1), block->address, 1, 1, 512));
  EXPECT_OK(FillOnDevice(TestStream(2), block->address, 2, 1, 512));  // nothing orders the two
  EXPECT_THAT(std::string(TestStream(2).Synchronize().message()),
              ::testing::HasSubstr("neither an event nor a synchronisation orders the two"));
  EXPECT_OK(TestStream(2).Synchronize());
  EXPECT_OK(TestStream(1).Synchronize());
  TestDevice().allocator().Free(block);
}

TEST(Device, StreamIdsAreBounded) {
  EXPECT_EQ(TestDevice().GetStream(Device::kMaxStreams).status().code(),
            absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 20; ++i) {
    const uint32_t id = TestDevice().NextStreamId();
    EXPECT_GT(id, 0u);
    EXPECT_LT(id, Device::kMaxStreams);
  }
}

TEST(Device, KindAndFacts) {
  EXPECT_EQ(*TestDevice().Kind(), "gaudi2");
  EXPECT_THAT(*TestDevice().IsaLevel(), ::testing::StartsWith("x86-64-v"));
  EXPECT_TRUE(TestDevice().properties().emulated);
  EXPECT_TRUE(TestDevice().properties().host_addressable);
  EXPECT_EQ(TestDevice().properties().name, "GAUDI2");
  EXPECT_EQ(TestDevice().Count(), 1);
  EXPECT_EQ(TestDevice().SetNumThreads(0).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu::runtime
