#include "emulator/threads/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "base/log.h"
#include "emulator/base/clock.h"
#include "emulator/base/spin.h"

namespace hpu::emulator {
namespace {

// A participant's share of the pieces is cut into chunks that shrink. Large ones come first and
// keep neighbouring tasks on one core. Small ones come at the end and even out the time that
// threads lost to the system, so that the last thread to finish is late by a small chunk at most.
// The borders are in 32nds of the share, summed up.
constexpr std::array<uint32_t, 9> kChunkBorders = {0, 8, 16, 20, 24, 26, 28, 30, 32};
constexpr uint32_t kChunksPerThread = kChunkBorders.size() - 1;

// How long a worker looks for the next loop before it sleeps. It is longer than the time that
// PyTorch takes between two calls of a model (guards of ResNet-50, out of caches: 0.9 ms);
// otherwise each call would begin by waking threads.
constexpr std::chrono::milliseconds kBetweenCalls{2};

constexpr uint32_t kMaxThreads = 0xFFFF / kChunksPerThread;

// Returns where a chunk begins, in pieces. Chunks are even where there are not more pieces than
// chunks.
uint64_t ChunkBegin(uint64_t pieces, uint32_t chunks, uint32_t chunk) {
  if (pieces <= chunks) return pieces * chunk / chunks;
  const uint64_t threads = chunks / kChunksPerThread;
  const uint64_t thread = chunk / kChunksPerThread;
  const uint64_t begin = pieces * thread / threads;
  const uint64_t end = pieces * (thread + 1) / threads;
  return begin + (end - begin) * kChunkBorders[chunk % kChunksPerThread] / kChunkBorders.back();
}

constexpr uint64_t Cursor(uint32_t generation, uint32_t begin, uint32_t end) {
  return uint64_t{generation} << 32 | end << 16 | begin;
}
constexpr uint32_t NextChunk(uint64_t cursor) { return cursor & 0xFFFF; }
constexpr uint32_t EndChunk(uint64_t cursor) { return cursor >> 16 & 0xFFFF; }

void RunPiece(const ParallelLoop& loop, int64_t begin, int64_t end, void* scratch) {
  if (loop.busy_ns == nullptr) {
    loop.function(loop.context, begin, end, scratch);
    return;
  }
  const uint64_t start_ns = NowNanoseconds();
  loop.function(loop.context, begin, end, scratch);
  loop.busy_ns->fetch_add(NowNanoseconds() - start_ns, std::memory_order_relaxed);
}

}  // namespace

ThreadPool::ThreadPool(uint32_t threads)
    : threads_(std::clamp(threads, 1u, kMaxThreads)),
      shares_(new Share[threads_]),
      scratch_(threads_) {
  for (uint32_t i = 1; i < threads_; ++i) {
    workers_.emplace_back([this, i] { WorkerLoop(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(running_);
    stop_.store(true);
    generation_.fetch_add(1);
    generation_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(const ParallelLoop& loop) {
  if (loop.tasks == 0) return;
  const uint64_t pieces = (loop.tasks + loop.grain - 1) / loop.grain;
  if (threads_ > 1 && pieces > 1) {
    std::unique_lock lock(running_, std::try_to_lock);
    if (lock.owns_lock()) {
      RunOnAllThreads(loop, pieces);
      return;
    }
  }
  RunPiece(loop, 0, static_cast<int64_t>(loop.tasks), loop.caller_scratch);
}

bool ThreadPool::ReserveScratch(uint64_t bytes) {
  if (scratch_bytes_.load(std::memory_order_acquire) >= bytes) return true;
  std::lock_guard lock(running_);
  for (uint32_t i = 1; i < threads_; ++i) {
    if (!scratch_[i].Reserve(bytes)) return false;
  }
  scratch_bytes_.store(std::max(bytes, scratch_bytes_.load()), std::memory_order_release);
  return true;
}

void ThreadPool::RunOnAllThreads(const ParallelLoop& loop, uint64_t pieces) {
  const auto chunks =
      static_cast<uint32_t>(std::min<uint64_t>(pieces, threads_ * kChunksPerThread));
  const uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  // No thread holds a chunk of the previous loop, so no thread reads these.
  loop_ = loop;
  pieces_ = pieces;
  chunks_ = chunks;
  done_.store(0, std::memory_order_relaxed);
  for (uint32_t i = 0; i < threads_; ++i) {
    const auto bound = [&](uint32_t n) {
      return static_cast<uint32_t>(uint64_t{chunks} * n / threads_);
    };
    shares_[i].cursor.store(Cursor(generation, bound(i), bound(i + 1)), std::memory_order_release);
  }
  LeaveMyCpu();
  generation_.store(generation, std::memory_order_release);
  generation_.notify_all();
  Drain(0, generation);
  for (;;) {
    const uint32_t done = done_.load(std::memory_order_acquire);
    if (done == chunks) return;
    SpinThenWait(done_, done);
  }
}

void ThreadPool::LeaveMyCpu() {
  const int here = sched_getcpu();
  for (uint32_t i = 1; i < threads_; ++i) {
    if (shares_[i].cpu.load(std::memory_order_relaxed) != here) continue;
    cpu_set_t cpus;
    if (here < 0 || sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return;
    CPU_CLR(here, &cpus);
    if (CPU_COUNT(&cpus) == 0) return;
    pthread_setaffinity_np(workers_[i - 1].native_handle(), sizeof(cpus), &cpus);
    shares_[i].cpu.store(-1, std::memory_order_relaxed);
  }
}

bool ThreadPool::TakeChunk(uint32_t participant, uint32_t generation, uint32_t* chunk) {
  for (uint32_t i = 0; i < threads_; ++i) {
    Share& share = shares_[(participant + i) % threads_];
    uint64_t cursor = share.cursor.load(std::memory_order_acquire);
    while (cursor >> 32 == generation && NextChunk(cursor) < EndChunk(cursor)) {
      if (share.cursor.compare_exchange_weak(cursor, cursor + 1, std::memory_order_acq_rel,
                                             std::memory_order_acquire)) {
        *chunk = NextChunk(cursor);
        return true;
      }
    }
  }
  return false;
}

void ThreadPool::Drain(uint32_t participant, uint32_t generation) {
  uint32_t chunk = 0;
  while (TakeChunk(participant, generation, &chunk)) {
    const auto task = [&](uint32_t n) {
      return static_cast<int64_t>(
          std::min<uint64_t>(loop_.tasks, ChunkBegin(pieces_, chunks_, n) * loop_.grain));
    };
    const int64_t begin = task(chunk), end = task(chunk + 1);
    if (begin < end) {
      RunPiece(loop_, begin, end,
               participant == 0 ? loop_.caller_scratch : scratch_[participant].data());
    }
    const uint32_t total = chunks_;
    // After the last increment the loop object may be gone.
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == total) done_.notify_one();
  }
}

void ThreadPool::WorkerLoop(uint32_t participant) {
  uint32_t seen = 0;
  for (;;) {
    SpinThenWait(generation_, seen, kBetweenCalls);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    shares_[participant].cpu.store(sched_getcpu(), std::memory_order_relaxed);
    Drain(participant, seen);
  }
}

uint32_t DefaultComputeThreads() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  uint32_t count = std::thread::hardware_concurrency();
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    count = static_cast<uint32_t>(CPU_COUNT(&cpus));
  }
  count = std::max(count, 1u);
  const char* text = std::getenv("HPU_EMULATOR_THREADS");
  if (text == nullptr || *text == '\0') return count;
  uint32_t limit = 0;
  if (absl::SimpleAtoi(text, &limit) && limit > 0) return std::min(limit, count);
  HPU_LOG(kWarning, "HPU_EMULATOR_THREADS="
                        << text << ": the value must be a number from 1 on; it counts as not set");
  return count;
}

}  // namespace hpu::emulator
