#include "emulator/runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "emulator/base/clock.h"
#include "emulator/base/status.h"
#include "emulator/base/thread_object.h"

namespace hpu::emulator {
namespace {

// One kernel as a parallel loop.
struct KernelCall {
  KernelFunction function = nullptr;
  void* const* operands = nullptr;
};

void RunTasks(const void* context, int64_t begin, int64_t end, void* scratch) {
  const auto* call = static_cast<const KernelCall*>(context);
  call->function(call->operands, begin, end, scratch);
}

ParallelLoop LoopOf(const KernelLaunch& kernel, const KernelCall* call, void* caller_scratch) {
  return {.function = &RunTasks,
          .context = call,
          .tasks = kernel.tasks,
          .grain = kernel.grain,
          .caller_scratch = caller_scratch};
}

uint64_t CpuNanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Runs the kernel's tasks one piece after the other and returns the time of each
// (synEmulatorTraceTasks). A kernel that one thread runs is one piece.
std::vector<uint64_t> TimePieces(bool one_thread, const ParallelLoop& loop) {
  constexpr uint64_t kMostPieces = 1024;
  const uint64_t grains = (loop.tasks + loop.grain - 1) / loop.grain;
  const uint64_t pieces = one_thread ? 1 : std::min(grains, kMostPieces);
  std::vector<uint64_t> took(pieces);
  const auto border = [&](uint64_t n) {
    return static_cast<int64_t>(std::min(loop.tasks, grains * n / pieces * loop.grain));
  };
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t start_ns = CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID);
    loop.function(loop.context, border(i), border(i + 1), loop.caller_scratch);
    took[i] = CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID) - start_ns;
  }
  return took;
}

// The outputs stay undefined, but no thread may wait for them for ever.
void FailSignals(const LaunchRequest& request, size_t first, synStatus status) {
  for (size_t i = first; i < request.signals.size(); ++i) {
    request.signals[i].progress->Fail(status);
    request.signals[i].progress->Advance();
  }
}

}  // namespace

// The state of one launch while it runs. It is kept per thread so that buffers are reused.
struct Executor::RunState {
  LaunchCopies copies;
  std::vector<void*> operands;
  AlignedBuffer scratch;  // the scratch of the thread that runs the launch
};

void Executor::RunLoop(const LoadedRecipe& recipe, uint32_t kernel, const ParallelLoop& loop,
                       std::vector<KernelTrace>* traces) {
  const bool one_thread = recipe.runs_on_one_thread(kernel);
  if (traces != nullptr) {
    traces->push_back(RunTraced(one_thread, loop));
  } else if (one_thread) {
    loop.function(loop.context, 0, static_cast<int64_t>(loop.tasks), loop.caller_scratch);
  } else {
    pool_->Run(loop);
  }
}

// Runs all kernels, or those after the prologue if another launch ran that.
synStatus Executor::RunKernels(const LaunchRequest& request, const RunState& run,
                               std::vector<KernelTrace>* traces) {
  const LoadedRecipe& recipe = *request.recipe;
  const std::vector<KernelLaunch>& kernels = recipe.recipe().kernels;
  size_t next_signal = 0;
  const auto signal_up_to = [&](uint32_t done) {
    while (next_signal < request.signals.size() &&
           request.signals[next_signal].after_kernels <= done) {
      request.signals[next_signal++].progress->Advance();
    }
  };
  const uint32_t prologue = recipe.recipe().prologue;
  const bool skips = run.copies.kept != nullptr && !run.copies.fills_kept;
  if (skips) run.copies.kept->WaitReady();
  for (uint32_t k = skips ? prologue : 0; k < kernels.size(); ++k) {
    if (run.copies.fills_kept && k == prologue) run.copies.kept->SetReady();
    signal_up_to(k);
    const KernelLaunch& kernel = kernels[k];
    void* const* operands = run.operands.data() + recipe.first_operand(k);
    if (kernel.custom == KernelLaunch::kOwnCode) {
      const KernelCall call{recipe.function(kernel.entry), operands};
      RunLoop(recipe, k, LoopOf(kernel, &call, run.scratch.data()), traces);
      continue;
    }
    const PreparedKernel& custom = recipe.custom_kernel(kernel.custom);
    const CustomRun call(custom, operands);
    RunLoop(recipe, k,
            {.function = &CustomRun::RunTasks, .context = &call, .tasks = custom.tasks()}, traces);
    if (!call.status().ok()) {
      const synStatus status = Fail(synFail, call.status().message());
      FailSignals(request, next_signal, status);
      return status;
    }
  }
  if (run.copies.fills_kept && prologue == kernels.size()) run.copies.kept->SetReady();
  signal_up_to(static_cast<uint32_t>(kernels.size()));
  return synSuccess;
}

KernelTrace Executor::RunTraced(bool one_thread, const ParallelLoop& loop) {
  KernelTrace trace{.start_ns = NowNanoseconds()};
  if (profiler_->task_times()) {
    trace.piece_ns = TimePieces(one_thread, loop);
  } else if (one_thread) {
    loop.function(loop.context, 0, static_cast<int64_t>(loop.tasks), loop.caller_scratch);
  } else {
    std::atomic<uint64_t> busy_ns{0};
    ParallelLoop timed = loop;
    timed.busy_ns = &busy_ns;
    pool_->Run(timed);
    trace.busy_ns = busy_ns.load();
  }
  trace.end_ns = NowNanoseconds();
  if (trace.busy_ns == 0) trace.busy_ns = trace.end_ns - trace.start_ns;
  return trace;
}

// Computes the addresses of all operands of all kernels, kernel after kernel.
void Executor::ResolveOperands(const LaunchRequest& request, RunState* run) const {
  const LoadedRecipe& recipe = *request.recipe;
  run->operands.resize(recipe.num_operands());
  const auto base_of = [&](const OperandRef& operand) -> uint64_t {
    switch (operand.kind) {
      case OperandRef::Kind::kPersistent:
        return request.table->addresses[operand.index];
      case OperandRef::Kind::kWorkspace:
        return request.table->workspace;
      case OperandRef::Kind::kConstant:
        return reinterpret_cast<uint64_t>(recipe.constants());
      case OperandRef::Kind::kPacked:
        return reinterpret_cast<uint64_t>(run->copies.packed[operand.index]->data());
      case OperandRef::Kind::kKept:
        return reinterpret_cast<uint64_t>(run->copies.kept->data());
      case OperandRef::Kind::kNull:
        return 0;
    }
    return 0;
  };
  uint32_t next = 0;
  for (const KernelLaunch& kernel : recipe.recipe().kernels) {
    for (const OperandRef& operand : kernel.operands) {
      run->operands[next++] = operand.kind == OperandRef::Kind::kNull
                                  ? nullptr
                                  : packs_.memory().At(base_of(operand) + operand.offset);
    }
  }
}

// Operands that kernels read and write in place must be in memory.
void Executor::UseOperands(const LaunchRequest& request, MemoryAccess* access) {
  const uint64_t epoch = packs_.eviction_epoch();
  if (epoch == 0) return;
  LoadedRecipe& recipe = *request.recipe;
  std::lock_guard lock(recipe.pack_mutex());
  LoadedRecipe::ResidentMemo& memo = recipe.resident_memo();
  if (memo.table == request.table && memo.epoch == epoch) return;
  for (const uint32_t tensor : recipe.direct_tensors()) {
    access->Use(request.table->addresses[tensor], recipe.tensor_bytes(tensor));
  }
  access->Use(request.table->workspace, recipe.recipe().workspace_bytes);
  memo = {request.table, epoch};
}

void Executor::PoisonWorkspace(const LaunchRequest& request) const {
  const uint64_t bytes = request.recipe->recipe().workspace_bytes;
  if (!packs_.memory().strict() || bytes == 0) return;
  std::memset(packs_.memory().At(request.table->workspace), kPoison, bytes);
}

// Copies of everything that the launch may have written are stale.
void Executor::DropWritten(const LaunchRequest& request) {
  const LoadedRecipe& recipe = *request.recipe;
  const uint64_t now = clock_.load(std::memory_order_relaxed);
  for (const uint32_t tensor : recipe.written_tensors()) {
    packs_.Rewrite(request.table->addresses[tensor], recipe.tensor_bytes(tensor), now);
  }
  packs_.Drop(request.table->workspace, recipe.recipe().workspace_bytes);
}

synStatus Executor::Run(const LaunchRequest& request) {
  RunState& run = ThreadObject<RunState>();
  std::shared_lock pool_lock(pool_mutex_);
  const uint64_t start_ns = profiler_->device_tracing() ? NowNanoseconds() : 0;
  const uint64_t start_cpu_ns = start_ns != 0 ? CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID) : 0;
  const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  synStatus status = faults_->Check(FaultPoint::kExecution);
  const uint64_t scratch_bytes = request.recipe->max_scratch_bytes();
  if (status == synSuccess &&
      (!run.scratch.Reserve(scratch_bytes) || !pool_->ReserveScratch(scratch_bytes))) {
    status =
        Fail(synOutOfHostMemory, "no memory for the scratch of ", request.recipe->recipe().name);
  }
  if (status == synSuccess) {
    status = packer_.Find(request, now, {pool_.get(), run.scratch.data()}, &run.copies);
  }
  if (status == synSuccess) {
    packs_.EvictSources(run.copies.evicted);
    MemoryAccess access(&packs_);
    UseOperands(request, &access);
    PoisonWorkspace(request);
    ResolveOperands(request, &run);
    std::vector<KernelTrace> traces;
    status = RunKernels(request, run, start_ns != 0 ? &traces : nullptr);
    if (start_ns != 0) {
      profiler_->AddLaunch({request.recipe, &request.recipe->recipe()}, request.origin,
                           {.start_ns = start_ns,
                            .end_ns = NowNanoseconds(),
                            .threads = pool_->threads(),
                            .cpu_ns = CpuNanoseconds(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_ns},
                           std::move(traces));
    }
    Count(counters_->launches);
    const Recipe& recipe = request.recipe->recipe();
    Count(counters_->kernels,
          recipe.kernels.size() -
              (run.copies.kept != nullptr && !run.copies.fills_kept ? recipe.prologue : 0));
    DropWritten(request);
  } else {
    FailSignals(request, 0, status);
  }
  run.copies.Release();
  return status;
}

void Executor::SetThreads(uint32_t threads) {
  const uint32_t wanted = threads == 0 ? DefaultComputeThreads() : threads;
  std::unique_lock lock(pool_mutex_);
  if (pool_->threads() == wanted) return;
  pool_ = std::make_unique<ThreadPool>(wanted);
}

bool Executor::MeasurePeak(Peak* peak) {
  std::unique_lock lock(pool_mutex_);
  return emulator::MeasurePeak(*pool_, peak);
}

uint32_t Executor::threads() const {
  std::shared_lock lock(pool_mutex_);
  return pool_->threads();
}

}  // namespace hpu::emulator
