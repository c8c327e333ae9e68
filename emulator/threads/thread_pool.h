// The compute threads of the emulated device. One parallel loop runs at a time on all of them. If a
// second stream launches in the meantime, it computes on its own thread alone, so that streams
// never wait for each other here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "emulator/base/aligned_buffer.h"

namespace hpu::emulator {

// One range of independent tasks: calls of `function` cover [0, tasks) exactly once in disjoint
// pieces of at least `grain` tasks (the last one may be shorter).
struct ParallelLoop {
  void (*function)(const void* context, int64_t begin, int64_t end, void* scratch) = nullptr;
  const void* context = nullptr;
  uint64_t tasks = 0;
  uint64_t grain = 1;
  void* caller_scratch = nullptr;  // the calling thread passes this; the others pass their own
  // If not null, it receives the time that the threads spend in `function`, added up.
  std::atomic<uint64_t>* busy_ns = nullptr;
};

class ThreadPool {
 public:
  // `threads` counts the caller of Run, so 1 starts no thread.
  explicit ThreadPool(uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns when all tasks have run. The caller computes too. Any number of threads may call it.
  void Run(const ParallelLoop& loop);

  // Gives every thread of the pool at least that much scratch; returns false when memory is
  // exhausted. It may wait for a running loop, but not once the size has been reached.
  bool ReserveScratch(uint64_t bytes);

  uint32_t threads() const { return threads_; }

 private:
  // The chunks of the running loop that one participant owns. Others take from it when theirs are
  // done. One word holds loop generation (bits 32..63), end (16..31) and next chunk (0..15), so
  // that a late thread can neither take chunks of a later loop nor mix the borders of two loops.
  struct alignas(64) Share {
    std::atomic<uint64_t> cursor{0};
    std::atomic<int> cpu{-1};  // the CPU on which its worker began the last loop; -1 = not known
  };

  void WorkerLoop(uint32_t participant);
  void Drain(uint32_t participant, uint32_t generation);
  bool TakeChunk(uint32_t participant, uint32_t generation, uint32_t* chunk);
  // Sends workers that were last seen on the caller's CPU to its other CPUs: the system may let
  // both share it for milliseconds, beside an idle CPU. It never leaves the caller's affinity mask.
  void LeaveMyCpu();
  void RunOnAllThreads(const ParallelLoop& loop, uint64_t pieces);

  const uint32_t threads_;
  std::unique_ptr<Share[]> shares_;

  std::mutex running_;  // the caller whose loop uses the threads holds this
  // The running loop. Only threads that took a chunk of it read it, and holding a chunk keeps it
  // running.
  ParallelLoop loop_;
  uint64_t pieces_ = 0;  // pieces of `grain` tasks; the last one may be shorter
  uint32_t chunks_ = 0;

  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // chunks of this loop that are finished
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> scratch_bytes_{0};
  std::vector<AlignedBuffer> scratch_;  // by participant; grows while no loop runs
  std::vector<std::thread> workers_;
};

// Returns the CPUs in the process's affinity mask, at most HPU_EMULATOR_THREADS if that is a
// positive number.
uint32_t DefaultComputeThreads();

}  // namespace hpu::emulator
