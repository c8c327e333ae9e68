// Finds the copies that a launch reads in place of its operands: operands that the matrix engine
// needs packed, and the results of the recipe's prologue. Copies that do not exist yet are packed
// here; the launch itself runs the prologue.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/base/counters.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/launch.h"
#include "emulator/runtime/pack_cache.h"
#include "emulator/threads/thread_pool.h"

namespace hpu::emulator {

// The copies of one launch.
struct LaunchCopies {
  std::vector<std::shared_ptr<PackedCopy>> packed;
  std::vector<uint32_t> claimed;  // the copies of `packed` that this launch fills
  std::vector<std::shared_ptr<PackedCopy>> evicted;  // the copies whose sources may be evicted
  std::shared_ptr<PackedCopy> kept;  // the results of the prologue; null: there is no prologue
  bool fills_kept = false;           // this launch runs the prologue

  void Release() {
    packed.clear();
    evicted.clear();
    kept.reset();
  }
};

// The means by which a launch packs: the compute threads, and scratch of the thread that runs it.
struct PackThreads {
  ThreadPool* pool = nullptr;
  void* scratch = nullptr;
};

class OperandPacker {
 public:
  OperandPacker(PackCache* packs, Counters* counters, Profiler* profiler)
      : packs_(packs), counters_(counters), profiler_(profiler) {}

  // `now` is a clock that counts launches. After synSuccess all copies of packed operands are
  // ready; `kept` is for the launch to fill or to wait for.
  synStatus Find(const LaunchRequest& request, uint64_t now, const PackThreads& threads,
                 LaunchCopies* copies);

 private:
  synStatus Pack(const LaunchRequest& request, uint64_t now, const PackThreads& threads,
                 LaunchCopies* copies);
  std::shared_ptr<PackedCopy> FindPacked(const LaunchRequest& request, uint64_t now,
                                         uint32_t index);
  // Finds the results of the prologue, or memory for them that this launch fills.
  synStatus FindKept(const LaunchRequest& request, uint64_t now, LaunchCopies* copies);
  void FillClaimed(const LaunchRequest& request, const PackThreads& threads, LaunchCopies* copies);
  void TracePacking(const LaunchRequest& request, const std::vector<uint32_t>& packed,
                    const TraceInterval& interval);

  PackCache* const packs_;
  Counters* const counters_;
  Profiler* const profiler_;
};

}  // namespace hpu::emulator
