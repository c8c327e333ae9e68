#include "emulator/streams/stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "emulator/streams/event.h"
#include "tests/eventually.h"

namespace hpu::emulator {
namespace {

class FunctionWork : public Work {
 public:
  explicit FunctionWork(std::function<synStatus()> function) : function_(std::move(function)) {}
  synStatus Run() override { return function_(); }

 private:
  const std::function<synStatus()> function_;
};

std::unique_ptr<Work> Do(std::function<void()> function) {
  return std::make_unique<FunctionWork>([function = std::move(function)] {
    function();
    return synSuccess;
  });
}

// Work of which the stream knows how long it takes.
class LongWork : public FunctionWork {
 public:
  LongWork(std::chrono::milliseconds expected, std::function<void()> function)
      : FunctionWork([function = std::move(function)] {
          function();
          return synSuccess;
        }),
        expected_(expected) {}
  std::chrono::nanoseconds Expected() const override { return expected_; }

 private:
  const std::chrono::milliseconds expected_;
};

class StreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<Stream> MakeStream() { return std::make_shared<Stream>(&inline_executions_); }
  static Capture Record(const std::shared_ptr<Stream>& stream) {
    Capture capture;
    capture.progress = stream->progress();
    capture.sequence = stream->tail();
    capture.stream = stream;
    return capture;
  }
  std::atomic<uint64_t> inline_executions_{0};
};

TEST_F(StreamTest, RunsInOrderWhoeverRunsIt) {
  const auto stream = MakeStream();
  std::vector<int> order;  // one thread at a time touches it, and TSan checks that
  for (int i = 0; i < 2000; ++i) {
    stream->Enqueue(Do([&order, i] { order.push_back(i); }));
    if (i % 97 == 0) {
      EXPECT_EQ(stream->Synchronize(), synSuccess);
    }
  }
  EXPECT_EQ(stream->Synchronize(), synSuccess);
  ASSERT_EQ(order.size(), 2000u);
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(StreamTest, ManyThreadsMayWaitForOneStream) {
  const auto stream = MakeStream();
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const uint64_t sequence = stream->Enqueue(Do([&] { done.fetch_add(1); }));
        stream->WaitFor(sequence);
        ASSERT_TRUE(stream->progress()->Reached(sequence));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.load(), 800);
}

// After many launches that were waited for, and after a while without any, no thread has to wait.
TEST_F(StreamTest, WorkThatNobodyWaitsForRuns) {
  const auto stream = MakeStream();
  std::atomic<int> done{0};
  for (const auto pause : {std::chrono::milliseconds(0), std::chrono::milliseconds(100)}) {
    for (int i = 0; i < 100; ++i) {
      stream->Enqueue(Do([&] { done.fetch_add(1); }));
      stream->Synchronize();
    }
    // The pause is what is tested: the stream changes its habits in it and tells nobody.
    std::this_thread::sleep_for(pause);
    const int before = done.load();
    stream->Enqueue(Do([&] { done.fetch_add(1); }));
    EXPECT_TRUE(Eventually([&] { return done.load() == before + 1; }));
  }
}

// The first waiter leaves work behind, for which the second one waits.
TEST_F(StreamTest, WhoRunsTheStreamMayLeaveBeforeOthersAreServed) {
  const auto stream = MakeStream();
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> second_waits{false};
    const uint64_t first = stream->Enqueue(Do([&] {
      while (!second_waits.load()) std::this_thread::yield();
      // The second one is a moment away from its wait. The test holds for every order of the two.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }));
    const uint64_t second = stream->Enqueue(Do([] {}));
    std::thread waiter([&] { stream->WaitFor(first); });
    second_waits.store(true);
    stream->WaitFor(second);
    EXPECT_TRUE(stream->idle());
    waiter.join();
  }
}

TEST_F(StreamTest, WhoWaitsAtOnceRunsItsLaunch) {
  const auto stream = MakeStream();
  for (int i = 0; i < 400; ++i) {
    stream->Enqueue(Do([] {}));
    stream->Synchronize();
  }
  EXPECT_GT(inline_executions_.load(), 200u);
}

// A thread that queues work faster than it runs waits at 1,024 pieces, or at 16 if they take more
// than a second together.
TEST_F(StreamTest, WhoRunsFarAheadWaitsForRoom) {
  for (const auto& [expected, most] : {std::pair(0, 1024), std::pair(100, 16)}) {
    const auto stream = MakeStream();
    std::atomic<bool> go{false};
    std::atomic<int> queued{0};
    std::thread host([&, expected = expected, most = most] {
      for (int i = 0; i < most + 8; ++i) {
        stream->Enqueue(std::make_unique<LongWork>(std::chrono::milliseconds(expected), [&] {
          while (!go.load()) std::this_thread::yield();
        }));
        queued.fetch_add(1);
      }
    });
    EXPECT_TRUE(Eventually([&, most = most] { return queued.load() == most; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(queued.load(), most);
    go.store(true);
    host.join();
    EXPECT_EQ(stream->Synchronize(), synSuccess);
    EXPECT_EQ(stream->progress()->completed(), static_cast<uint64_t>(most) + 8);
  }
}

TEST_F(StreamTest, EventsOrderStreams) {
  for (int round = 0; round < 50; ++round) {
    const auto producer = MakeStream();
    const auto consumer = MakeStream();
    int value = 0;
    int seen = -1;
    std::atomic<bool> go{false};
    producer->Enqueue(Do([&] {
      while (!go.load()) std::this_thread::yield();
      value = round + 1;
    }));
    consumer->Enqueue(std::make_unique<WaitWork>(Record(producer)));
    consumer->Enqueue(Do([&] { seen = value; }));
    EXPECT_FALSE(consumer->idle());
    go.store(true);
    EXPECT_EQ(consumer->Synchronize(), synSuccess);
    EXPECT_EQ(seen, round + 1);
  }
}

TEST_F(StreamTest, FailureIsReportedOnceAtSynchronisation) {
  const auto stream = MakeStream();
  stream->Enqueue(std::make_unique<FunctionWork>([] { return synAssertAsync; }));
  stream->Enqueue(std::make_unique<FunctionWork>([] { return synDeviceReset; }));
  EXPECT_EQ(stream->Synchronize(), synAssertAsync);
  EXPECT_EQ(stream->Synchronize(), synSuccess);
}

TEST_F(StreamTest, DestructionFinishesQueuedWork) {
  std::atomic<int> done{0};
  {
    const auto stream = MakeStream();
    for (int i = 0; i < 100; ++i) stream->Enqueue(Do([&] { done.fetch_add(1); }));
  }
  EXPECT_EQ(done.load(), 100);
}

TEST_F(StreamTest, CaptureOutlivesItsStream) {
  Capture capture;
  EXPECT_TRUE(capture.Done());
  {
    const auto stream = MakeStream();
    stream->Enqueue(Do([] {}));
    capture = Record(stream);
  }
  EXPECT_TRUE(capture.Done());
  capture.Wait();
}

}  // namespace
}  // namespace hpu::emulator
