// Collectives of several ranks, each a process (reference 5.3).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>

#include "tests/synapse/rank_data.h"

namespace hpu {
namespace {

// Sizes around slots and parts: empty, one element, one step, two steps, several slots, odd ends.
constexpr uint64_t kCounts[] = {0, 1, 3, 1000, 4096, 4097, 65536, 100003, 300001};

// Ranks of one host share memory unless they are told not to.
struct Setting {
  int size = 1;
  bool network = false;
};

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.size << (setting.network ? " ranks over the network" : " ranks");
}

class CollectivesTest : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!GetParam().network) return;
    setenv("EMULATOR_HCCL_SHARE_MEMORY", "0", 1);
    setenv("HCCL_SOCKET_IFNAME", "=lo", 1);
  }
  void TearDown() override {
    unsetenv("EMULATOR_HCCL_SHARE_MEMORY");
    unsetenv("HCCL_SOCKET_IFNAME");
  }
};

TEST_P(CollectivesTest, AllReduceOfEverySize) {
  ExpectAllFine(RunRanks(GetParam().size, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    for (const uint64_t count : kCounts) {
      for (const bool in_place : {false, true}) {
        const uint64_t send = Put(rank, Values<float>(rank.rank(), count));
        const uint64_t receive = in_place ? send : rank.Allocate(count * 4 + 1);
        rank.Check(rank.api().hcclAllReduce(Pointer(send), Pointer(receive), count, hcclFloat32,
                                            hcclSum, comm, rank.stream()),
                   "hcclAllReduce");
        rank.Expect(Get<float>(rank, receive, count) == SumOfRanks<float>(rank.size(), count),
                    "sums of " + std::to_string(count) + (in_place ? " in place" : ""));
      }
    }
  }));
}

TEST_P(CollectivesTest, ReduceToEveryRoot) {
  ExpectAllFine(RunRanks(GetParam().size, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    for (const uint64_t count : kCounts) {
      for (int root = 0; root < rank.size(); ++root) {
        const uint64_t send = Put(rank, Values<int32_t>(rank.rank(), count));
        const uint64_t receive = root == rank.rank() ? rank.Allocate(count * 4 + 1) : 0;
        rank.Check(rank.api().hcclReduce(Pointer(send), Pointer(receive), count, hcclInt32, hcclSum,
                                         root, comm, rank.stream()),
                   "hcclReduce");
        rank.Check(rank.Synchronize(), "synStreamSynchronize");
        if (root != rank.rank()) continue;
        rank.Expect(Get<int32_t>(rank, receive, count) == SumOfRanks<int32_t>(rank.size(), count),
                    "sums of " + std::to_string(count));
      }
    }
  }));
}

TEST_P(CollectivesTest, BroadcastFromEveryRoot) {
  ExpectAllFine(RunRanks(GetParam().size, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    for (const uint64_t count : kCounts) {
      for (int root = 0; root < rank.size(); ++root) {
        const uint64_t buffer = Put(rank, Values<int64_t>(rank.rank(), count));
        rank.Check(rank.api().hcclBroadcast(Pointer(buffer), Pointer(buffer), count, hcclInt64,
                                            root, comm, rank.stream()),
                   "hcclBroadcast");
        rank.Expect(Get<int64_t>(rank, buffer, count) == Values<int64_t>(root, count),
                    "values of " + std::to_string(count));
      }
    }
  }));
}

TEST_P(CollectivesTest, AllGatherReduceScatterAndAllToAll) {
  ExpectAllFine(RunRanks(GetParam().size, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const auto size = static_cast<uint64_t>(rank.size());
    for (const uint64_t count : kCounts) {
      const uint64_t block = Put(rank, Values<int32_t>(rank.rank(), count));
      const uint64_t all = Put(rank, Values<int32_t>(rank.rank(), count * size));
      const uint64_t gathered = rank.Allocate(count * size * 4 + 1);
      const uint64_t scattered = rank.Allocate(count * 4 + 1);
      const uint64_t turned = rank.Allocate(count * size * 4 + 1);
      rank.Check(rank.api().hcclAllGather(Pointer(block), Pointer(gathered), count, hcclInt32, comm,
                                          rank.stream()),
                 "hcclAllGather");
      rank.Check(rank.api().hcclReduceScatter(Pointer(all), Pointer(scattered), count, hcclInt32,
                                              hcclSum, comm, rank.stream()),
                 "hcclReduceScatter");
      rank.Check(rank.api().hcclAlltoAll(Pointer(all), Pointer(turned), count * size, hcclInt32,
                                         comm, rank.stream()),
                 "hcclAlltoAll");
      std::vector<int32_t> expected_gathered, expected_turned;
      for (int peer = 0; peer < rank.size(); ++peer) {
        const std::vector<int32_t> values = Values<int32_t>(peer, count);
        expected_gathered.insert(expected_gathered.end(), values.begin(), values.end());
        const std::vector<int32_t> wide = Values<int32_t>(peer, count * size);
        const auto begin = wide.begin() + static_cast<ptrdiff_t>(count) * rank.rank();
        expected_turned.insert(expected_turned.end(), begin, begin + static_cast<ptrdiff_t>(count));
      }
      const std::vector<int32_t> sums = SumOfRanks<int32_t>(rank.size(), count * size);
      const auto begin = sums.begin() + static_cast<ptrdiff_t>(count) * rank.rank();
      const std::vector<int32_t> expected_scattered(begin, begin + static_cast<ptrdiff_t>(count));
      const std::string text = " of " + std::to_string(count);
      rank.Expect(Get<int32_t>(rank, gathered, count * size) == expected_gathered, "gather" + text);
      rank.Expect(Get<int32_t>(rank, scattered, count) == expected_scattered, "scatter" + text);
      rank.Expect(Get<int32_t>(rank, turned, count * size) == expected_turned, "turn" + text);
    }
  }));
}

TEST_P(CollectivesTest, EveryRankSendsToEveryRankInAGroup) {
  ExpectAllFine(RunRanks(GetParam().size, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    constexpr uint64_t kCount = 200001;
    const uint64_t send = Put(rank, Values<float>(rank.rank(), kCount));
    std::vector<uint64_t> received;
    rank.Check(rank.api().hcclGroupStart(), "hcclGroupStart");
    for (int peer = 0; peer < rank.size(); ++peer) {
      received.push_back(rank.Allocate(kCount * 4));
      rank.Check(rank.api().hcclSend(Pointer(send), kCount, hcclFloat32, peer, comm, rank.stream()),
                 "hcclSend");
      rank.Check(rank.api().hcclRecv(Pointer(received.back()), kCount, hcclFloat32, peer, comm,
                                     rank.stream()),
                 "hcclRecv");
    }
    rank.Check(rank.api().hcclGroupEnd(), "hcclGroupEnd");
    for (int peer = 0; peer < rank.size(); ++peer) {
      rank.Expect(Get<float>(rank, received[static_cast<size_t>(peer)], kCount) ==
                      Values<float>(peer, kCount),
                  "values of rank " + std::to_string(peer));
    }
  }));
}

// The news that rank 0 has ended is there before its data has been read.
TEST_P(CollectivesTest, WhatARankSentBeforeItEndedArrives) {
  constexpr uint64_t kCount = 200003;  // all of it is on its way when the send has ended
  if (!GetParam().network || GetParam().size != 2) {
    GTEST_SKIP() << "with shared memory there is less room (CollectiveErrorTest)";
  }
  auto* sender = static_cast<pid_t*>(
      mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(sender), MAP_FAILED);
  ExpectAllFine(RunRanks(2, [&](Rank& rank) {
    if (rank.rank() == 0) *sender = getpid();
    const hcclComm_t comm = rank.Join();
    const uint64_t place = Put(rank, Values<float>(0, kCount));
    rank.Check(rank.api().hcclAllReduce(Pointer(place), Pointer(place), 1, hcclFloat32, hcclMax,
                                        comm, rank.stream()),
               "hcclAllReduce");
    rank.Check(rank.Synchronize(), "synStreamSynchronize");
    if (rank.rank() == 0) {
      rank.Check(rank.api().hcclSend(Pointer(place), kCount, hcclFloat32, 1, comm, rank.stream()),
                 "hcclSend");
      rank.Check(rank.Synchronize(), "synStreamSynchronize");
      return;
    }
    while (kill(*sender, 0) == 0) usleep(1000);
    rank.Check(rank.api().hcclRecv(Pointer(place), kCount, hcclFloat32, 0, comm, rank.stream()),
               "hcclRecv");
    rank.Expect(Get<float>(rank, place, kCount) == Values<float>(0, kCount), "what was sent");
  }));
  munmap(sender, sizeof(pid_t));
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, CollectivesTest,
                         ::testing::Values(Setting{1}, Setting{2}, Setting{3}, Setting{4},
                                           Setting{8}));
INSTANTIATE_TEST_SUITE_P(Network, CollectivesTest,
                         ::testing::Values(Setting{2, true}, Setting{3, true}));

// A send on one stream and a receive on another run at the same time, whatever their order.
TEST(PointToPointTest, StreamsSendAndReceiveAtTheSameTime) {
  ExpectAllFine(RunRanks(2, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    constexpr uint64_t kCount = 1 << 20;  // far more than fits into the slots
    synStreamHandle second = nullptr;
    rank.Check(rank.api().synStreamCreateGeneric(&second, 0, 0), "synStreamCreateGeneric");
    const uint64_t send = Put(rank, Values<float>(rank.rank(), kCount));
    const uint64_t receive = rank.Allocate(kCount * 4);
    const int peer = 1 - rank.rank();
    rank.Check(rank.api().hcclSend(Pointer(send), kCount, hcclFloat32, peer, comm, second), "send");
    rank.Check(
        rank.api().hcclRecv(Pointer(receive), kCount, hcclFloat32, peer, comm, rank.stream()),
        "receive");
    rank.Expect(Get<float>(rank, receive, kCount) == Values<float>(peer, kCount), "values");
    rank.Check(rank.api().synStreamSynchronize(second), "synStreamSynchronize");
  }));
}

// Sums of many halves would lose bits if they were rounded at every rank.
TEST(ReductionTest, HalvesAreRoundedOnce) {
  ExpectAllFine(RunRanks(4, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    // 256 + 1 + 1 + 1 in bf16: 259 lies between 258 and 260 and goes to the even one; rounding at
    // every rank would stay at 256.
    const uint16_t bits =
        static_cast<uint16_t>(std::bit_cast<uint32_t>(rank.rank() == 0 ? 256.0F : 1.0F) >> 16);
    const uint64_t buffer = Put(rank, std::vector<uint16_t>(70000, bits));
    rank.Check(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 70000, hcclBfloat16,
                                        hcclSum, comm, rank.stream()),
               "hcclAllReduce");
    const uint16_t expected = static_cast<uint16_t>(std::bit_cast<uint32_t>(260.0F) >> 16);
    rank.Expect(Get<uint16_t>(rank, buffer, 70000) == std::vector<uint16_t>(70000, expected),
                "260 everywhere");
  }));
}

}  // namespace
}  // namespace hpu
