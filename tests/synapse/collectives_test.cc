// Collectives of several ranks, each a process (reference 5.3).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "tests/synapse/ranks.h"

namespace hpu {
namespace {

const std::string kFine;

// Elements of rank `rank` that make every sum of eight ranks exact.
template <typename T>
std::vector<T> Values(int rank, uint64_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(rank) + 1);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int64_t>(random() % 13) - 6);
  return values;
}

template <typename T>
uint64_t Put(Rank& rank, const std::vector<T>& values) {
  const uint64_t address = rank.Allocate(std::max<uint64_t>(values.size() * sizeof(T), 1));
  if (!values.empty()) rank.Upload(values.data(), values.size() * sizeof(T), address);
  return address;
}

template <typename T>
std::vector<T> Get(Rank& rank, uint64_t address, uint64_t count) {
  std::vector<T> values(count);
  if (count == 0) return values;
  const std::vector<uint8_t> bytes = rank.Download(address, count * sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

template <typename T>
std::vector<T> SumOfRanks(int size, uint64_t count) {
  std::vector<T> sum(count);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<T> values = Values<T>(rank, count);
    for (uint64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + values[i]);
  }
  return sum;
}

void ExpectAllFine(const std::vector<std::string>& results) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank], kFine) << "rank " << rank;
  }
}

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

// What ranks see when they do not call the same: no wrong numbers and no hang.
TEST(CollectiveErrorTest, RanksThatCallOtherCollectivesGetBothNames) {
  const std::vector<std::string> results = RunRanks(3, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const uint64_t buffer = Put(rank, Values<float>(rank.rank(), 128));
    if (rank.rank() == 2) {
      rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 64, hcclFloat32, hcclMax, comm,
                               rank.stream());
    } else {
      rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 128, hcclFloat32, hcclSum, comm,
                               rank.stream());
    }
    rank.Expect(rank.Synchronize() == synFailHccl, "synFailHccl");
    rank.Expect(rank.LastMessage().find("all_reduce of 128 float32 (sum)") != std::string::npos &&
                    rank.LastMessage().find("all_reduce of 64 float32 (max)") != std::string::npos,
                rank.LastMessage());
    hcclResult_t error = hcclSuccess;
    rank.Check(rank.api().hcclCommGetAsyncError(comm, &error), "hcclCommGetAsyncError");
    rank.Expect(error == hcclSystemError, "the communicator has failed");
    rank.Expect(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 128, hcclFloat32,
                                         hcclSum, comm, rank.stream()) == hcclSystemError,
                "no further call is queued");
  });
  ExpectAllFine(results);
}

// A new communicator works after a failure, and events carry the failure to other streams.
TEST(CollectiveErrorTest, AKilledRankIsNamedAndTheOthersGoOn) {
  const std::vector<std::string> results = RunRanks(3, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const hcclComm_t barrier = rank.Join();
    const uint64_t buffer = Put(rank, Values<float>(rank.rank(), 1 << 20));
    const uint64_t word = Put(rank, Values<float>(rank.rank(), 1));
    synStreamHandle second = nullptr;
    synEventHandle event = nullptr;
    rank.Check(rank.api().synStreamCreateGeneric(&second, 0, 0), "synStreamCreateGeneric");
    if (rank.rank() != 1) {
      rank.Check(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 1 << 20, hcclFloat32,
                                          hcclSum, comm, rank.stream()),
                 "hcclAllReduce");
    }
    rank.Check(rank.api().hcclAllReduce(Pointer(word), Pointer(word), 1, hcclFloat32, hcclSum,
                                        barrier, second),
               "hcclAllReduce");
    rank.Check(rank.api().synStreamSynchronize(second), "synStreamSynchronize");
    // The others have queued the collective that this rank never joins.
    if (rank.rank() == 1) raise(SIGKILL);
    rank.Check(rank.api().synEventCreate(&event, 0, 0), "synEventCreate");
    rank.Check(rank.api().synEventRecord(event, rank.stream()), "synEventRecord");
    rank.Check(rank.api().synStreamWaitEvent(second, event, 0), "synStreamWaitEvent");
    rank.Expect(rank.api().synStreamSynchronize(second) == synFailHccl, "the second stream fails");
    rank.Expect(rank.LastMessage().find(
                    "rank 1 has closed its connection: its process has ended") != std::string::npos,
                rank.LastMessage());
    rank.Expect(rank.Synchronize() == synFailHccl, "the first stream fails");
    rank.Check(rank.api().hcclCommDestroy(comm), "hcclCommDestroy");
    rank.Expect(rank.Synchronize() == synSuccess, "the device is usable");
  });
  EXPECT_EQ(results, (std::vector<std::string>{"", "signal 9", ""}));
}

TEST(CollectiveErrorTest, AStoppedRankIsNamedAfterTheBound) {
  setenv("EMULATOR_HCCL_SILENCE_SECONDS", "2", 1);
  const std::vector<std::string> results = RunRanks(2, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const uint64_t buffer = Put(rank, Values<float>(rank.rank(), 16));
    if (rank.rank() == 1) {
      raise(SIGSTOP);
      return;
    }
    rank.Check(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 16, hcclFloat32, hcclSum,
                                        comm, rank.stream()),
               "hcclAllReduce");
    const synStatus status = rank.Synchronize();
    const std::string message = rank.LastMessage();
    rank.Expect(status == synFailHccl &&
                    message.find("rank 1 has not been heard of for 2 seconds") != std::string::npos,
                message);
  });
  unsetenv("EMULATOR_HCCL_SILENCE_SECONDS");
  EXPECT_EQ(results, (std::vector<std::string>{"", "signal 9"}));
}

// A rank that ends without destroying the communicator has sent everything that it owed.
TEST(CollectiveErrorTest, WhatARankSentBeforeItEndedArrives) {
  ExpectAllFine(RunRanks(2, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const uint64_t buffer = Put(rank, Values<float>(0, 1000));
    if (rank.rank() == 0) {
      rank.Check(rank.api().hcclSend(Pointer(buffer), 1000, hcclFloat32, 1, comm, rank.stream()),
                 "hcclSend");
      rank.Check(rank.Synchronize(), "synStreamSynchronize");
      return;
    }
    // The other process is gone once its connection is closed, which an impossible receive shows.
    const uint64_t other = rank.Allocate(4000);
    synStreamHandle second = nullptr;
    rank.Check(rank.api().synStreamCreateGeneric(&second, 0, 0), "synStreamCreateGeneric");
    rank.Check(rank.api().hcclRecv(Pointer(other), 1000, hcclFloat32, 0, comm, rank.stream()),
               "hcclRecv");
    rank.Expect(Get<float>(rank, other, 1000) == Values<float>(0, 1000), "the sent values");
    rank.Check(rank.api().hcclRecv(Pointer(other), 1000, hcclFloat32, 0, comm, second), "hcclRecv");
    rank.Expect(rank.api().synStreamSynchronize(second) == synFailHccl, "nothing more comes");
  }));
}

// Ranks die and stop at any moment; the others always get an error and never wait for longer than
// the bound. COLLECTIVE_KILLS=1000 makes the long run of it (docs/testing.md).
TEST(CollectiveErrorTest, RandomKillsAndStops) {
  setenv("EMULATOR_HCCL_SILENCE_SECONDS", "3", 1);
  const char* given = std::getenv("COLLECTIVE_KILLS");
  const int rounds = given != nullptr ? std::atoi(given) : 12;
  for (int round = 0; round < rounds; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    const int victim = static_cast<int>(random() % 3);
    const bool stops = random() % 8 == 0;
    const auto delay = std::chrono::microseconds(random() % 20000);
    const uint64_t count = random() % 2 == 0 ? 100 : 300000;
    const std::vector<std::string> results = RunRanks(3, [&](Rank& rank) {
      const hcclComm_t comm = rank.Join();
      const uint64_t buffer = Put(rank, Values<float>(rank.rank(), count));
      if (rank.rank() == victim) {
        std::thread([&] {
          std::this_thread::sleep_for(delay);
          raise(stops ? SIGSTOP : SIGKILL);
        }).detach();
      }
      const auto begin = std::chrono::steady_clock::now();
      for (;;) {
        const hcclResult_t queued = rank.api().hcclAllReduce(
            Pointer(buffer), Pointer(buffer), count, hcclFloat32, hcclMax, comm, rank.stream());
        std::string message = rank.LastMessage();
        const synStatus status = rank.Synchronize();
        if (queued == hcclSuccess && status == synSuccess) continue;
        if (status != synSuccess) message = rank.LastMessage();
        rank.Expect(message.find("rank " + std::to_string(victim)) != std::string::npos,
                    "the message names the rank: " + message);
        break;
      }
      rank.Expect(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30), "in time");
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(results[static_cast<size_t>(rank)], kFine) << "round " << round << " rank " << rank;
    }
  }
  unsetenv("EMULATOR_HCCL_SILENCE_SECONDS");
}

TEST(RendezvousTest, RefusesWhatDoesNotFit) {
  ExpectAllFine(RunRanks(1, [](Rank& rank) {
    hcclComm_t comm = nullptr;
    hcclUniqueId id{};
    rank.Expect(rank.api().hcclCommInitRank(&comm, 2, id, 0) == hcclInvalidArgument, "empty id");
    rank.Expect(rank.LastMessage().find("HCCL_COMM_ID") != std::string::npos, rank.LastMessage());
    id.internal[0] = 7;
    rank.Expect(rank.api().hcclCommInitRank(&comm, 2, id, 0) == hcclInvalidArgument, "foreign id");
    rank.Check(rank.api().hcclGetUniqueId(&id), "hcclGetUniqueId");
    rank.Expect(rank.api().hcclCommInitRank(&comm, 2, id, 2) == hcclInvalidArgument, "rank 2 of 2");
    rank.Expect(rank.api().hcclCommInitRank(&comm, 0, id, 0) == hcclInvalidArgument, "no ranks");
    rank.Check(rank.api().hcclCommInitRank(&comm, 1, id, 0), "hcclCommInitRank");
    const uint64_t buffer = rank.Allocate(64);
    rank.Expect(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 4, hcclFloat32,
                                         static_cast<hcclRedOp_t>(9), comm,
                                         rank.stream()) == hcclInvalidArgument,
                "reduction 9");
    rank.Expect(
        rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), uint64_t{1} << 40, hcclFloat32,
                                 hcclSum, comm, rank.stream()) == hcclInvalidArgument,
        "more than the device has");
    rank.Expect(rank.api().hcclSend(Pointer(buffer), 4, hcclFloat32, 0, comm, rank.stream()) ==
                    hcclInvalidUsage,
                "a send to itself");
    rank.Expect(rank.api().hcclGroupEnd() == hcclInvalidUsage, "a group that was not started");
    rank.Check(rank.api().hcclCommDestroy(comm), "hcclCommDestroy");
    rank.Expect(rank.api().hcclCommDestroy(comm) == hcclInvalidArgument, "destroyed twice");
  }));
}

TEST(RendezvousTest, AMissingRankIsNamed) {
  setenv("EMULATOR_HCCL_JOIN_SECONDS", "1", 1);
  ExpectAllFine(RunRanks(1, [](Rank& rank) {
    hcclComm_t comm = nullptr;
    hcclUniqueId id{};
    rank.Check(rank.api().hcclGetUniqueId(&id), "hcclGetUniqueId");
    rank.Expect(rank.api().hcclCommInitRank(&comm, 3, id, 0) == hcclSystemError, "a time-out");
    rank.Expect(rank.LastMessage() == "these ranks did not join in time: 1, 2", rank.LastMessage());
  }));
  unsetenv("EMULATOR_HCCL_JOIN_SECONDS");
}

// The root's address comes from HCCL_COMM_ID; other ranks pass zeros, as hccl_demo does.
TEST(RendezvousTest, RanksMeetAtAFixedAddress) {
  setenv("HCCL_COMM_ID", "127.0.0.1:38911", 1);
  ExpectAllFine(RunRanks(2, [](Rank& rank) {
    hcclComm_t comm = nullptr;
    hcclUniqueId id{};
    if (rank.rank() == 0) rank.Check(rank.api().hcclGetUniqueId(&id), "hcclGetUniqueId");
    rank.Check(rank.api().hcclCommInitRank(&comm, 2, id, rank.rank()), "hcclCommInitRank");
    const uint64_t buffer = Put(rank, std::vector<float>(8, 1.5F));
    rank.Check(rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), 8, hcclFloat32, hcclSum,
                                        comm, rank.stream()),
               "hcclAllReduce");
    rank.Expect(Get<float>(rank, buffer, 8) == std::vector<float>(8, 3.0F), "3 everywhere");
  }));
  unsetenv("HCCL_COMM_ID");
}

// Holds an emulated module as another process would.
int HoldModule(const std::string& number) {
  const int held = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "hpu-emulated-module-" + number;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(bind(held, reinterpret_cast<const sockaddr*>(&address), length), 0);
  return held;
}

TEST(ModuleTest, EveryProcessHoldsAModuleOfItsOwn) {
  const char* given = std::getenv("HPU_EMULATOR_MODULES");
  const std::string before = given != nullptr ? given : "8";
  setenv("HPU_EMULATOR_MODULES", "50000", 1);
  setenv("HABANA_VISIBLE_MODULES", "40000,40001", 1);
  const int first = HoldModule("40000");
  const int second = HoldModule("40001");
  const auto acquire = [](Rank&) {};
  const std::string taken = RunRanks(1, acquire)[0];
  EXPECT_NE(taken.find("other processes hold all 2 emulated modules of this host"),
            std::string::npos)
      << taken;
  close(second);
  EXPECT_EQ(RunRanks(1,
                     [](Rank& rank) {
                       char bus[32] = "";
                       rank.Check(rank.api().synDeviceGetPCIBusId(bus, sizeof(bus), 0), "PCI bus");
                       rank.Expect(std::string(bus) == "009c:41:00.0", bus);
                       uint32_t count = 0;
                       rank.Check(rank.api().synDeviceGetCount(&count), "synDeviceGetCount");
                       rank.Expect(count == 2, "two modules are visible");
                     })[0],
            "");
  close(first);
  setenv("HABANA_VISIBLE_MODULES", "1,x", 1);
  const std::string wrong = RunRanks(1, acquire)[0];
  EXPECT_NE(wrong.find("HABANA_VISIBLE_MODULES=1,x"), std::string::npos) << wrong;
  unsetenv("HABANA_VISIBLE_MODULES");
  setenv("HPU_EMULATOR_MODULES", before.c_str(), 1);
}

}  // namespace
}  // namespace hpu
