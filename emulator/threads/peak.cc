#include "emulator/threads/peak.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>

#include "emulator/base/aligned_buffer.h"
#include "emulator/base/clock.h"
#include "emulator/threads/peak_loops.h"
#include "recipe/isa.h"

namespace hpu::emulator {
namespace {

// The time for each rate.
constexpr uint64_t kBudgetNs = 300'000'000;
constexpr int kLeastRuns = 5;
constexpr double kTaskFlops = 8e6;
constexpr uint64_t kTasksPerThread = 8;

uint64_t ThreadCpuNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Calls `measure`, which returns a rate, as often as the budget allows, and returns the best rate.
template <typename Measure>
double Best(const Measure& measure) {
  const uint64_t begin_ns = NowNanoseconds();
  double best = 0;
  for (int run = 0; run < kLeastRuns || NowNanoseconds() - begin_ns < kBudgetNs; ++run) {
    best = std::max(best, measure());
  }
  return best;
}

struct ArithmeticRun {
  PeakLoop loop;
  int64_t rounds = 0;  // per task
  std::atomic<uint64_t> cpu_ns{0};
};

void RunArithmetic(const void* context, int64_t begin, int64_t end, void* /*scratch*/) {
  // The counter belongs to the caller; loops take their context as constant.
  auto* run = static_cast<ArithmeticRun*>(const_cast<void*>(context));
  const uint64_t start_ns = ThreadCpuNanoseconds();
  for (int64_t task = begin; task < end; ++task) run->loop.run(run->rounds);
  run->cpu_ns.fetch_add(ThreadCpuNanoseconds() - start_ns, std::memory_order_relaxed);
}

// Uses the threads' own CPU time: it leaves out threads that the system keeps from running, but not
// threads that share the units of a core.
double FlopsPerSecond(ThreadPool& pool, const PeakLoop& loop) {
  const uint64_t tasks = kTasksPerThread * pool.threads();
  const auto rounds = static_cast<int64_t>(kTaskFlops / loop.flops_per_round);
  const double flops =
      loop.flops_per_round * static_cast<double>(rounds) * static_cast<double>(tasks);
  return Best([&] {
    ArithmeticRun run;
    run.loop = loop;
    run.rounds = rounds;
    pool.Run({.function = &RunArithmetic, .context = &run, .tasks = tasks});
    const uint64_t cpu_ns = std::max<uint64_t>(run.cpu_ns.load(), 1);
    return flops * pool.threads() / (static_cast<double>(cpu_ns) / 1e9);
  });
}

constexpr int64_t kCopyTaskBytes = int64_t{1} << 20;

struct Buffers {
  uint8_t* from = nullptr;
  uint8_t* to = nullptr;
};

void RunCopy(const void* context, int64_t begin, int64_t end, void* /*scratch*/) {
  const auto [from, to] = *static_cast<const Buffers*>(context);
  for (int64_t task = begin; task < end; ++task) {
    std::memcpy(to + task * kCopyTaskBytes, from + task * kCopyTaskBytes, kCopyTaskBytes);
  }
}

// Uses the wall clock: this is the rate that the threads reach together.
double BytesPerSecond(ThreadPool& pool, const Buffers& buffers, uint64_t bytes) {
  return Best([&] {
    const uint64_t start_ns = NowNanoseconds();
    pool.Run({.function = &RunCopy, .context = &buffers, .tasks = bytes / kCopyTaskBytes});
    const uint64_t took_ns = std::max<uint64_t>(NowNanoseconds() - start_ns, 1);
    return 2.0 * static_cast<double>(bytes) / (static_cast<double>(took_ns) / 1e9);
  });
}

// The buffers are larger than the last cache, but no machine needs more than a gigabyte for both.
uint64_t CopyBytes() {
  constexpr long kLeast = 64L << 20;
  constexpr long kMost = 512L << 20;
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<uint64_t>(std::clamp(2 * std::max(cache, 0L), kLeast, kMost)) /
         kCopyTaskBytes * kCopyTaskBytes;
}

}  // namespace

bool MeasurePeak(ThreadPool& pool, Peak* peak) {
  const uint64_t bytes = CopyBytes();
  const AlignedBuffer from(bytes);
  const AlignedBuffer to(bytes);
  if (from.data() == nullptr || to.data() == nullptr) return false;
  std::memset(from.data(), 1, bytes);  // pages that were never written are all the same one
  const IsaLevel level = HostIsaLevel().value_or(IsaLevel::kV2);
  peak->f32_flops_per_second = FlopsPerSecond(pool, F32PeakLoop(level));
  peak->bf16_flops_per_second = FlopsPerSecond(pool, Bf16PeakLoop(level));
  peak->bytes_per_second = BytesPerSecond(pool, {from.data(), to.data()}, bytes);
  return true;
}

}  // namespace hpu::emulator
