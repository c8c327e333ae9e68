#include "base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace hpu {
namespace {

TEST(ParallelFor, CallsEachNumberOnceOnAtMostSoManyThreads) {
  for (const size_t threads : {0u, 1u, 3u, 100u}) {
    std::vector<std::atomic<int>> calls(50);
    std::mutex mutex;
    std::set<std::thread::id> ids;
    ParallelFor(calls.size(), threads, [&](size_t i) {
      ++calls[i];
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count, 1);
    EXPECT_LE(ids.size(), std::max<size_t>(threads, 1));
  }
  ParallelFor(0, 4, [](size_t) { FAIL(); });
}

TEST(ParallelFor, AnExceptionOnAnyThreadReachesTheCaller) {
  std::atomic<int> arrived{0};
  const auto fail_together = [&](size_t) {
    // Both threads are inside before one throws, so one of the exceptions is not the caller's own.
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    throw std::bad_alloc();
  };
  EXPECT_THROW(ParallelFor(2, 2, fail_together), std::bad_alloc);
  EXPECT_EQ(arrived, 2);
}

TEST(ParallelFor, AnExceptionLeavesOutWhatHasNotBegun) {
  int calls = 0;
  EXPECT_THROW(ParallelFor(1000, 1,
                           [&](size_t i) {
                             ++calls;
                             if (i == 2) throw std::runtime_error("two");
                           }),
               std::runtime_error);
  EXPECT_EQ(calls, 3);
}

// The address space holds a few more stacks, but not a thousand.
TEST(ParallelFor, DoesWithFewerThreadsThanWanted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more address space than any limit leaves";
#endif
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{rlim_t{512} << 20, rlim_t{512} << 20};
    setrlimit(RLIMIT_AS, &limit);
    std::atomic<size_t> calls{0};
    ParallelFor(1000, 1000, [&](size_t) { ++calls; });
    _exit(calls == 1000 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hpu
