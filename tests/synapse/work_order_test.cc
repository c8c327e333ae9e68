// The checker of strict mode: which works it holds to be ordered.
#include "emulator/streams/work_order.h"

#include <gtest/gtest.h>

#include <set>

namespace hpu::emulator {
namespace {

class WorkOrderTest : public ::testing::Test {
 protected:
  std::string Read(uint32_t stream, uint64_t address, uint64_t bytes = 8) {
    const MemoryUse use{address, bytes, false};
    return order_.Add(stream, "reader", {&use, 1});
  }
  std::string Write(uint32_t stream, uint64_t address, uint64_t bytes = 8) {
    const MemoryUse use{address, bytes, true};
    return order_.Add(stream, "writer", {&use, 1});
  }
  WorkOrder order_{0};
  const uint32_t a_ = order_.AddStream(), b_ = order_.AddStream(), c_ = order_.AddStream();
};

TEST_F(WorkOrderTest, TwoStreamsConflictWhereOneWrites) {
  EXPECT_EQ(Write(a_, 0x1000, 64), "");
  EXPECT_EQ(Read(b_, 0x1020, 64),
            "reader on stream 1 reads 32 bytes at 0x1020 that writer on stream 0 writes, and "
            "neither an event nor a synchronisation orders the two");
  EXPECT_EQ(Read(a_, 0x2000), "");
  EXPECT_EQ(Write(b_, 0x2004, 1),
            "writer on stream 1 writes 1 bytes at 0x2004 that reader on stream 0 reads, and "
            "neither an event nor a synchronisation orders the two");
  EXPECT_EQ(Write(a_, 0x3000), "");
  EXPECT_NE(Write(b_, 0x3000), "");
}

TEST_F(WorkOrderTest, ReadersAndNeighboursDoNotConflict) {
  EXPECT_EQ(Read(a_, 100, 50), "");
  EXPECT_EQ(Read(b_, 100, 50), "");
  EXPECT_EQ(Write(a_, 200, 10), "");
  EXPECT_EQ(Write(b_, 210, 10), "");
  EXPECT_EQ(Write(b_, 190, 10), "");
  EXPECT_EQ(Write(a_, 205, 1), "") << "its own";
}

TEST_F(WorkOrderTest, WaitsOrder) {
  EXPECT_EQ(Write(a_, 0), "");
  const WorkOrder::Clock point = order_.Reached(a_);
  EXPECT_EQ(Write(a_, 64), "");
  order_.StreamWaits(b_, point);
  EXPECT_EQ(Read(b_, 0), "");
  EXPECT_NE(Read(b_, 64), "") << "it was queued after the event";
}

TEST_F(WorkOrderTest, OrderGoesThroughOtherStreams) {
  EXPECT_EQ(Write(a_, 0), "");
  order_.StreamWaits(b_, order_.Reached(a_));
  EXPECT_EQ(Write(b_, 64), "");
  order_.StreamWaits(c_, order_.Reached(b_));
  EXPECT_EQ(Write(c_, 0), "");
  EXPECT_NE(Write(a_, 64), "") << "the first stream waited for nobody";
}

TEST_F(WorkOrderTest, TheHostOrdersWhatItQueuesAfterAWait) {
  EXPECT_EQ(Write(a_, 0), "");
  const WorkOrder::Clock before = order_.Reached(a_);
  EXPECT_EQ(Write(a_, 64), "");
  order_.HostWaited(before);
  EXPECT_EQ(Write(b_, 0), "");
  EXPECT_NE(Write(b_, 64), "");
  order_.HostWaited(order_.Reached(a_));
  EXPECT_EQ(Write(c_, 64, 4),
            "writer on stream 2 writes 4 bytes at 0x40 that writer on stream 1 "
            "writes, and neither an event nor a synchronisation orders the two");
}

TEST_F(WorkOrderTest, AWriterMustComeAfterEveryReader) {
  EXPECT_EQ(Read(a_, 0, 64), "");
  EXPECT_EQ(Read(b_, 32, 64), "");
  order_.StreamWaits(c_, order_.Reached(a_));
  EXPECT_EQ(Write(c_, 0, 32), "") << "only the first stream read this";
  EXPECT_NE(Write(c_, 0, 64), "");
  // A stream that comes after the writer comes after the readers of that time, too.
  order_.StreamWaits(a_, order_.Reached(c_));
  EXPECT_EQ(Write(a_, 0, 64), "");
}

TEST_F(WorkOrderTest, AWorkThatReadsAndWritesIsNotInItsOwnWay) {
  const MemoryUse uses[] = {{0, 64, false}, {0, 64, true}, {32, 64, true}};
  EXPECT_EQ(order_.Add(a_, "in place", uses), "");
  EXPECT_EQ(order_.Add(a_, "in place", uses), "");
}

TEST_F(WorkOrderTest, WhatTheHostSawEndIsForgottenAndTheRestIsNot) {
  EXPECT_EQ(Write(b_, 1 << 30), "");
  for (uint64_t i = 0; i < 20'000; ++i) {
    ASSERT_EQ(Read(a_, 128 * i), "");
    if (i % 1000 == 0) order_.HostWaited(order_.Reached(a_));
  }
  EXPECT_NE(Write(c_, 128 * 19'999), "") << "its reader has not ended";
  EXPECT_NE(Read(c_, 1 << 30), "");
}

TEST_F(WorkOrderTest, DelaysFollowTheSeed) {
  const auto delays = [](const WorkOrder& order) {
    std::vector<int64_t> all;
    for (uint64_t work = 0; work < 64; ++work) all.push_back(order.Delay(0, work).count());
    return all;
  };
  EXPECT_EQ(delays(order_), std::vector<int64_t>(64, 0)) << "no stream has had work";
  Write(a_, 0);
  EXPECT_EQ(delays(order_), std::vector<int64_t>(64, 0)) << "there is only one";
  Write(b_, 64);
  EXPECT_EQ(delays(order_), delays(order_));
  const std::vector<int64_t> some = delays(order_);
  EXPECT_GT(std::set<int64_t>(some.begin(), some.end()).size(), 10u);
  WorkOrder other(1);
  for (const uint32_t stream : {other.AddStream(), other.AddStream()}) {
    const MemoryUse use{64 * stream, 8, true};
    other.Add(stream, "writer", {&use, 1});
  }
  EXPECT_NE(delays(other), delays(order_));
}

}  // namespace
}  // namespace hpu::emulator
