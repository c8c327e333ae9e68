// Ranks that fail or disagree, how ranks meet, and the modules of a host (reference 5.3).
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/synapse/rank_data.h"

namespace hpu {
namespace {

// Ranks that do not call the same get an error, neither wrong numbers nor a hang.
TEST(CollectiveErrorTest, RanksThatCallOtherCollectivesGetBothNames) {
  const std::vector<std::string> results = RunRanks(3, [](Rank& rank) {
    const hcclComm_t comm = rank.Join();
    const uint64_t buffer = Put(rank, Values<float>(rank.rank(), 128));
    const bool is_last = rank.rank() == 2;
    const hcclResult_t called =
        rank.api().hcclAllReduce(Pointer(buffer), Pointer(buffer), is_last ? 64 : 128, hcclFloat32,
                                 is_last ? hcclMax : hcclSum, comm, rank.stream());
    // The others may have failed before this rank calls. Its call is not queued then.
    if (called == hcclSuccess) {
      rank.Expect(rank.Synchronize() == synFailHccl, "synFailHccl");
    } else {
      rank.Expect(called == hcclSystemError, "hcclSystemError");
    }
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
    // On one of the two ranks the failure is there before the event.
    while (rank.rank() == 2 && rank.api().synStreamQuery(rank.stream()) == synBusy) usleep(100);
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
  setenv("EMULATOR_HCCL_SILENCE_SECONDS", "6", 1);
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
  EXPECT_NE(taken.find("other processes hold the 2 emulated modules that HABANA_VISIBLE_MODULES or "
                       "HABANA_VISIBLE_DEVICES names; this host emulates 50000"),
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
