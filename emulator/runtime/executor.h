// Runs launches: finds or packs the copies of operands (operand_packer.h), then runs the recipe's
// kernels in order, each over the compute threads. The thread that runs a stream calls it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "emulator/base/counters.h"
#include "emulator/faults/fault_injector.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/launch.h"
#include "emulator/runtime/operand_packer.h"
#include "emulator/runtime/pack_cache.h"
#include "emulator/threads/peak.h"
#include "emulator/threads/thread_pool.h"

namespace hpu::emulator {

class Executor {
 public:
  Executor(const HostView& memory, uint64_t pack_limit, Counters* counters, Profiler* profiler,
           FaultInjector* faults)
      : packs_(pack_limit, counters, memory),
        counters_(counters),
        profiler_(profiler),
        faults_(faults),
        packer_(&packs_, counters, profiler),
        pool_(std::make_unique<ThreadPool>(DefaultComputeThreads())) {}

  synStatus Run(const LaunchRequest& request);

  // Waits for running launches. 0 means the default.
  void SetThreads(uint32_t threads);
  uint32_t threads() const;

  // Measures the best that this host reaches with the compute threads (peak.h). Waits for running
  // launches. Returns false if there is not enough memory.
  bool MeasurePeak(Peak* peak);

  PackCache& packs() { return packs_; }

 private:
  struct RunState;
  void ResolveOperands(const LaunchRequest& request, RunState* run) const;
  void UseOperands(const LaunchRequest& request, MemoryAccess* access);
  void DropWritten(const LaunchRequest& request);
  // Strict mode: a launch must not depend on what earlier ones left in its workspace.
  void PoisonWorkspace(const LaunchRequest& request) const;
  // `traces` receives the traces of the kernels; it is null while nothing is traced. After a
  // failure no further kernel runs.
  synStatus RunKernels(const LaunchRequest& request, const RunState& run,
                       std::vector<KernelTrace>* traces);
  void RunLoop(const LoadedRecipe& recipe, uint32_t kernel, const ParallelLoop& loop,
               std::vector<KernelTrace>* traces);
  KernelTrace RunTraced(bool one_thread, const ParallelLoop& loop);

  PackCache packs_;
  Counters* const counters_;
  Profiler* const profiler_;
  FaultInjector* const faults_;
  OperandPacker packer_;
  std::atomic<uint64_t> clock_{0};        // counts launches
  mutable std::shared_mutex pool_mutex_;  // held shared while a launch uses the pool
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace hpu::emulator
