#include "emulator/threads/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace hpu::emulator {
namespace {

struct Visits {
  std::vector<std::atomic<int>> counts;
  std::atomic<int64_t> smallest_piece{1 << 30};
  explicit Visits(size_t tasks) : counts(tasks) {}
};

void Visit(const void* context, int64_t begin, int64_t end, void*) {
  auto* visits = const_cast<Visits*>(static_cast<const Visits*>(context));
  for (int64_t i = begin; i < end; ++i) visits->counts[static_cast<size_t>(i)].fetch_add(1);
  if (end != static_cast<int64_t>(visits->counts.size())) {
    int64_t smallest = visits->smallest_piece.load();
    while (end - begin < smallest &&
           !visits->smallest_piece.compare_exchange_weak(smallest, end - begin)) {
    }
  }
}

TEST(ThreadPoolTest, EveryTaskRunsOnceForAnySplit) {
  for (const uint32_t threads : {1u, 2u, 3u, 7u}) {
    ThreadPool pool(threads);
    for (const uint64_t tasks : {0u, 1u, 5u, 64u, 1000u, 4097u}) {
      for (const uint64_t grain : {1u, 7u, 64u, 5000u}) {
        Visits visits(tasks);
        pool.Run({.function = &Visit, .context = &visits, .tasks = tasks, .grain = grain});
        for (size_t i = 0; i < tasks; ++i) {
          ASSERT_EQ(visits.counts[i].load(), 1) << i << " of " << tasks << " by " << grain;
        }
        if (tasks > grain) {
          EXPECT_GE(visits.smallest_piece.load(), static_cast<int64_t>(grain));
        }
      }
    }
  }
}

TEST(ThreadPoolTest, TimeInTasksIsAddedUp) {
  constexpr uint64_t kTaskNs = 200'000;
  const auto wait = [](const void*, int64_t begin, int64_t end, void*) {
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::nanoseconds(kTaskNs * static_cast<uint64_t>(end - begin));
    while (std::chrono::steady_clock::now() < until) {
    }
  };
  for (const uint32_t threads : {1u, 3u}) {
    ThreadPool pool(threads);
    std::atomic<uint64_t> busy_ns{0};
    pool.Run({.function = wait, .tasks = 12, .busy_ns = &busy_ns});
    EXPECT_GE(busy_ns.load(), 12 * kTaskNs) << threads;
  }
}

// Neighbours stay together first; at the end there are small chunks to even out the threads.
TEST(ThreadPoolTest, ChunksShrinkTowardsTheEndOfAShare) {
  struct Sizes {
    std::mutex mutex;
    std::map<int64_t, int64_t> begin_to_size;
  } sizes;
  const auto note = [](const void* context, int64_t begin, int64_t end, void*) {
    auto* all = const_cast<Sizes*>(static_cast<const Sizes*>(context));
    std::lock_guard lock(all->mutex);
    all->begin_to_size[begin] = end - begin;
  };
  ThreadPool(2).Run({.function = note, .context = &sizes, .tasks = 128, .grain = 2});
  const std::map<int64_t, int64_t> wanted = {
      {0, 16},  {16, 16}, {32, 8}, {40, 8},  {48, 4},  {52, 4},  {56, 4},  {60, 4},
      {64, 16}, {80, 16}, {96, 8}, {104, 8}, {112, 4}, {116, 4}, {120, 4}, {124, 4}};
  EXPECT_EQ(sizes.begin_to_size, wanted);
}

TEST(ThreadPoolTest, ManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        Visits visits(97);
        pool.Run({.function = &Visit, .context = &visits, .tasks = 97, .grain = 3});
        for (const auto& count : visits.counts) ASSERT_EQ(count.load(), 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPoolTest, ThreadsHaveScratchOfTheirOwn) {
  ThreadPool pool(4);
  ASSERT_TRUE(pool.ReserveScratch(4096));
  std::vector<char> own(4096);
  struct Shared {
    std::mutex mutex;
    std::map<void*, std::thread::id> owner;
  } shared;
  const auto note = [](const void* context, int64_t, int64_t, void* scratch) {
    auto* all = const_cast<Shared*>(static_cast<const Shared*>(context));
    static_cast<char*>(scratch)[4095] = 1;
    std::lock_guard lock(all->mutex);
    const auto [it, added] = all->owner.emplace(scratch, std::this_thread::get_id());
    EXPECT_EQ(it->second, std::this_thread::get_id());
  };
  for (int i = 0; i < 100; ++i) {
    pool.Run({.function = note,
              .context = &shared,
              .tasks = 64,
              .grain = 1,
              .caller_scratch = own.data()});
  }
  EXPECT_EQ(shared.owner.count(own.data()), 1u);
}

TEST(ThreadPoolTest, EnvironmentLimitsTheDefault) {
  setenv("HPU_EMULATOR_THREADS", "1", 1);
  EXPECT_EQ(DefaultComputeThreads(), 1u);
  setenv("HPU_EMULATOR_THREADS", "nonsense", 1);
  EXPECT_GE(DefaultComputeThreads(), 1u);
  unsetenv("HPU_EMULATOR_THREADS");
  EXPECT_GE(DefaultComputeThreads(), 1u);
}

}  // namespace
}  // namespace hpu::emulator
