#include "emulator/runtime/executor.h"

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/prefault.h"
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
std::vector<uint64_t> TimePieces(const KernelLaunch& kernel, bool one_thread,
                                 const ParallelLoop& loop) {
  constexpr uint64_t kMostPieces = 1024;
  const uint64_t grains = (kernel.tasks + kernel.grain - 1) / kernel.grain;
  const uint64_t pieces = one_thread ? 1 : std::min(grains, kMostPieces);
  std::vector<uint64_t> took(pieces);
  const auto border = [&](uint64_t n) {
    return static_cast<int64_t>(std::min(kernel.tasks, grains * n / pieces * kernel.grain));
  };
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t start_ns = CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID);
    loop.function(loop.context, border(i), border(i + 1), loop.caller_scratch);
    took[i] = CpuNanoseconds(CLOCK_THREAD_CPUTIME_ID) - start_ns;
  }
  return took;
}

// The packing of several operands as one parallel loop: the tasks of the first operand, then those
// of the second, and so on.
struct PackCall {
  KernelFunction function = nullptr;
  void* operands[2] = {};   // source, destination
  uint64_t task_bytes = 0;  // of the destination
  uint64_t first_task = 0;
  uint64_t tasks = 0;
};

// Runs tasks [from, to) of one operand, whose destination is fresh memory.
void RunPackCall(const PackCall& call, uint64_t from, uint64_t to, void* scratch) {
  const uint64_t most =
      std::max<uint64_t>(1, kPrefaultBytes / std::max<uint64_t>(1, call.task_bytes));
  for (; from < to; from += most) {
    const uint64_t end = std::min(from + most, to);
    Prefault(static_cast<uint8_t*>(call.operands[1]) + from * call.task_bytes,
             (end - from) * call.task_bytes);
    call.function(call.operands, static_cast<int64_t>(from), static_cast<int64_t>(end), scratch);
  }
}

void RunPackTasks(const void* context, int64_t begin, int64_t end, void* scratch) {
  const auto& calls = *static_cast<const std::vector<PackCall>*>(context);
  const auto first = static_cast<uint64_t>(begin), last = static_cast<uint64_t>(end);
  for (const PackCall& call : calls) {
    const uint64_t from = std::max(first, call.first_task);
    const uint64_t to = std::min(last, call.first_task + call.tasks);
    if (from >= to) continue;
    RunPackCall(call, from - call.first_task, to - call.first_task, scratch);
  }
}

uint64_t SourceAddress(const LaunchRequest& request, const PackedOperand& packed) {
  const OperandRef& source = packed.source;
  return source.offset + (source.kind == OperandRef::Kind::kPersistent
                              ? request.table->addresses[source.index]
                              : reinterpret_cast<uint64_t>(request.recipe->constants()));
}

}  // namespace

// The state of one launch while it runs. It is kept per thread so that buffers are reused.
struct Executor::RunState {
  std::vector<std::shared_ptr<PackedCopy>> packed;
  std::vector<uint32_t> claimed;  // the copies of `packed` that this launch fills
  std::vector<std::shared_ptr<PackedCopy>> evicted;  // the copies whose sources may be evicted
  std::shared_ptr<PackedCopy> kept;  // the results of the prologue; null: there is no prologue
  bool fills_kept = false;           // this launch runs the prologue
  std::vector<void*> operands;
  AlignedBuffer scratch;  // the scratch of the thread that runs the launch
};

std::shared_ptr<PackedCopy> Executor::FindPacked(const LaunchRequest& request, uint32_t index) {
  const PackedOperand& packed = request.recipe->recipe().packed[index];
  const uint64_t address = SourceAddress(request, packed);
  const uint64_t now = clock_.load(std::memory_order_relaxed);
  LoadedRecipe::PackMemo& memo = request.recipe->pack_memo()[index];
  if (memo.address == address) {
    std::shared_ptr<PackedCopy> copy = memo.copy.lock();
    if (copy != nullptr && copy->valid()) {
      copy->Touch(now);
      Count(counters_->pack_hits);
      return copy;
    }
  }
  std::shared_ptr<PackedCopy> copy =
      packs_.Get({address, packed.source_bytes, packed.format}, packed.packed_bytes, now);
  memo = {address, copy};
  return copy;
}

synStatus Executor::FindKept(const LaunchRequest& request, RunState* run) {
  LoadedRecipe& recipe = *request.recipe;
  run->kept.reset();
  run->fills_kept = false;
  if (recipe.recipe().prologue == 0) return synSuccess;
  const uint64_t now = clock_.load(std::memory_order_relaxed);
  std::lock_guard lock(recipe.pack_mutex());
  LoadedRecipe::KeptMemo& memo = recipe.kept_memo();
  const std::vector<uint32_t>& tensors = recipe.prologue_tensors();
  bool moved = memo.addresses.size() != tensors.size();
  for (size_t i = 0; i < tensors.size() && !moved; ++i) {
    moved = memo.addresses[i] != request.table->addresses[tensors[i]];
  }
  if (!moved) run->kept = memo.copy.lock();
  if (run->kept != nullptr && run->kept->valid()) {
    run->kept->Touch(now);
  } else {
    memo.addresses.clear();
    std::vector<DeviceRange> sources;
    std::string format = "kept";
    for (const uint32_t tensor : tensors) {
      const uint64_t address = request.table->addresses[tensor];
      memo.addresses.push_back(address);
      sources.push_back({address, recipe.tensor_bytes(tensor)});
      format += ' ' + std::to_string(address);
    }
    // The recipe's own address stands for the values that it computes.
    run->kept = packs_.Get({reinterpret_cast<uint64_t>(&recipe), 1, std::move(format)},
                           recipe.recipe().kept_bytes, now, sources);
    memo.copy = run->kept;
  }
  if (run->kept == nullptr) {
    return Fail(synOutOfHostMemory, "no memory for the values that ", recipe.recipe().name,
                " computes from its weights");
  }
  run->fills_kept = run->kept->Claim();
  return synSuccess;
}

void Executor::FillClaimed(const LaunchRequest& request, RunState* run) {
  if (run->claimed.empty()) return;
  std::vector<PackCall> calls;
  uint64_t tasks = 0;
  MemoryAccess access(&packs_);
  for (const uint32_t index : run->claimed) {
    const PackedOperand& packed = request.recipe->recipe().packed[index];
    const uint64_t source = SourceAddress(request, packed);
    calls.push_back(
        {.function = request.recipe->function(packed.kernel.entry),
         .operands = {access.Use(source, packed.source_bytes), run->packed[index]->data()},
         .task_bytes = packed.packed_bytes / std::max<uint64_t>(1, packed.kernel.tasks),
         .first_task = tasks,
         .tasks = packed.kernel.tasks});
    tasks += packed.kernel.tasks;
  }
  const uint64_t start_ns = profiler_->device_tracing() ? NowNanoseconds() : 0;
  pool_->Run({.function = &RunPackTasks,
              .context = &calls,
              .tasks = tasks,
              .caller_scratch = run->scratch.data()});
  if (start_ns != 0) TracePacking(request, run->claimed, {start_ns, NowNanoseconds()});
  for (const uint32_t index : run->claimed) {
    const PackedOperand& packed = request.recipe->recipe().packed[index];
    PackedCopy& copy = *run->packed[index];
    if (packed.restore_entry != PackedOperand::kNoEntry) {
      copy.SetRestorer({.code = request.recipe->code(),
                        .function = request.recipe->function(packed.restore_entry),
                        .tasks = packed.kernel.tasks});
    }
    copy.SetReady();
  }
}

// All of them are traced as one kernel, because they ran as one loop.
void Executor::TracePacking(const LaunchRequest& request, const std::vector<uint32_t>& packed,
                            const TraceInterval& interval) {
  const Recipe& recipe = request.recipe->recipe();
  KernelLaunch all;
  all.name = "pack weights";
  all.engine = Engine::kMme;
  all.tasks = 0;
  for (const uint32_t index : packed) {
    all.tasks += recipe.packed[index].kernel.tasks;
    all.bytes += recipe.packed[index].kernel.bytes;
  }
  profiler_->AddPacking(recipe.name, all, request.origin.stream, interval);
}

synStatus Executor::Pack(const LaunchRequest& request, RunState* run) {
  const Recipe& recipe = request.recipe->recipe();
  const uint32_t count = static_cast<uint32_t>(recipe.packed.size());
  run->packed.resize(count);
  run->claimed.clear();
  run->evicted.clear();
  if (count == 0) return synSuccess;
  std::lock_guard lock(request.recipe->pack_mutex());
  bool exhausted = false;
  for (uint32_t i = 0; i < count && !exhausted; ++i) {
    run->packed[i] = FindPacked(request, i);
    exhausted = run->packed[i] == nullptr;
    if (!exhausted && run->packed[i]->Claim()) run->claimed.push_back(i);
  }
  // This is done even when memory is short, because other launches may wait for the claimed copies.
  FillClaimed(request, run);
  if (exhausted) {
    return Fail(synOutOfHostMemory, "no memory for packed operands of ", recipe.name);
  }
  for (uint32_t i = 0; i < count; ++i) {
    run->packed[i]->WaitReady();
    if (request.recipe->can_evict_source(i) && run->packed[i]->CountUse()) {
      run->evicted.push_back(run->packed[i]);
    }
  }
  return synSuccess;
}

// Runs all kernels, or those after the prologue if another launch ran that.
void Executor::RunKernels(const LaunchRequest& request, const RunState& run,
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
  const bool skips = run.kept != nullptr && !run.fills_kept;
  if (skips) run.kept->WaitReady();
  for (uint32_t k = skips ? prologue : 0; k < kernels.size(); ++k) {
    if (run.fills_kept && k == prologue) run.kept->SetReady();
    signal_up_to(k);
    const KernelLaunch& kernel = kernels[k];
    const KernelCall call{recipe.function(kernel.entry),
                          run.operands.data() + recipe.first_operand(k)};
    const ParallelLoop loop = LoopOf(kernel, &call, run.scratch.data());
    if (traces != nullptr) {
      traces->push_back(RunTraced(kernel, recipe.runs_on_one_thread(k), loop));
    } else if (recipe.runs_on_one_thread(k)) {
      RunTasks(&call, 0, static_cast<int64_t>(kernel.tasks), run.scratch.data());
    } else {
      pool_->Run(loop);
    }
  }
  if (run.fills_kept && prologue == kernels.size()) run.kept->SetReady();
  signal_up_to(static_cast<uint32_t>(kernels.size()));
}

KernelTrace Executor::RunTraced(const KernelLaunch& kernel, bool one_thread,
                                const ParallelLoop& loop) {
  KernelTrace trace{.start_ns = NowNanoseconds()};
  if (profiler_->task_times()) {
    trace.piece_ns = TimePieces(kernel, one_thread, loop);
  } else if (one_thread) {
    loop.function(loop.context, 0, static_cast<int64_t>(kernel.tasks), loop.caller_scratch);
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
        return reinterpret_cast<uint64_t>(run->packed[operand.index]->data());
      case OperandRef::Kind::kKept:
        return reinterpret_cast<uint64_t>(run->kept->data());
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
  clock_.fetch_add(1, std::memory_order_relaxed);
  synStatus status = faults_->Check(FaultPoint::kExecution);
  const uint64_t scratch_bytes = request.recipe->max_scratch_bytes();
  if (status == synSuccess &&
      (!run.scratch.Reserve(scratch_bytes) || !pool_->ReserveScratch(scratch_bytes))) {
    status =
        Fail(synOutOfHostMemory, "no memory for the scratch of ", request.recipe->recipe().name);
  }
  if (status == synSuccess) status = Pack(request, &run);
  if (status == synSuccess) status = FindKept(request, &run);
  if (status == synSuccess) {
    packs_.EvictSources(run.evicted);
    MemoryAccess access(&packs_);
    UseOperands(request, &access);
    PoisonWorkspace(request);
    ResolveOperands(request, &run);
    std::vector<KernelTrace> traces;
    RunKernels(request, run, start_ns != 0 ? &traces : nullptr);
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
          recipe.kernels.size() - (run.kept != nullptr && !run.fills_kept ? recipe.prologue : 0));
    DropWritten(request);
  } else {
    // The outputs stay undefined, but no thread may wait for them for ever.
    for (const LaunchSignal& signal : request.signals) {
      signal.progress->Fail(status);
      signal.progress->Advance();
    }
  }
  run.packed.clear();
  run.evicted.clear();
  run.kept.reset();
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
