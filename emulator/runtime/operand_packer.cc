#include "emulator/runtime/operand_packer.h"

#include <algorithm>

#include "base/prefault.h"
#include "emulator/base/clock.h"
#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

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

std::shared_ptr<PackedCopy> OperandPacker::FindPacked(const LaunchRequest& request, uint64_t now,
                                                      uint32_t index) {
  const PackedOperand& packed = request.recipe->recipe().packed[index];
  const uint64_t address = SourceAddress(request, packed);
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
      packs_->Get({address, packed.source_bytes, packed.format}, packed.packed_bytes, now);
  memo = {address, copy};
  return copy;
}

synStatus OperandPacker::FindKept(const LaunchRequest& request, uint64_t now,
                                  LaunchCopies* copies) {
  LoadedRecipe& recipe = *request.recipe;
  copies->kept.reset();
  copies->fills_kept = false;
  if (recipe.recipe().prologue == 0) return synSuccess;
  std::lock_guard lock(recipe.pack_mutex());
  LoadedRecipe::KeptMemo& memo = recipe.kept_memo();
  const std::vector<uint32_t>& tensors = recipe.prologue_tensors();
  bool moved = memo.addresses.size() != tensors.size();
  for (size_t i = 0; i < tensors.size() && !moved; ++i) {
    moved = memo.addresses[i] != request.table->addresses[tensors[i]];
  }
  if (!moved) copies->kept = memo.copy.lock();
  if (copies->kept != nullptr && copies->kept->valid()) {
    copies->kept->Touch(now);
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
    copies->kept = packs_->Get({reinterpret_cast<uint64_t>(&recipe), 1, std::move(format)},
                               recipe.recipe().kept_bytes, now, sources);
    memo.copy = copies->kept;
  }
  if (copies->kept == nullptr) {
    return Fail(synOutOfHostMemory, "no memory for the values that ", recipe.recipe().name,
                " computes from its weights");
  }
  copies->fills_kept = copies->kept->Claim();
  return synSuccess;
}

void OperandPacker::FillClaimed(const LaunchRequest& request, const PackThreads& threads,
                                LaunchCopies* copies) {
  if (copies->claimed.empty()) return;
  std::vector<PackCall> calls;
  uint64_t tasks = 0;
  MemoryAccess access(packs_);
  for (const uint32_t index : copies->claimed) {
    const PackedOperand& packed = request.recipe->recipe().packed[index];
    const uint64_t source = SourceAddress(request, packed);
    calls.push_back(
        {.function = request.recipe->function(packed.kernel.entry),
         .operands = {access.Use(source, packed.source_bytes), copies->packed[index]->data()},
         .task_bytes = packed.packed_bytes / std::max<uint64_t>(1, packed.kernel.tasks),
         .first_task = tasks,
         .tasks = packed.kernel.tasks});
    tasks += packed.kernel.tasks;
  }
  const uint64_t start_ns = profiler_->device_tracing() ? NowNanoseconds() : 0;
  threads.pool->Run({.function = &RunPackTasks,
                     .context = &calls,
                     .tasks = tasks,
                     .caller_scratch = threads.scratch});
  if (start_ns != 0) TracePacking(request, copies->claimed, {start_ns, NowNanoseconds()});
  for (const uint32_t index : copies->claimed) {
    const PackedOperand& packed = request.recipe->recipe().packed[index];
    PackedCopy& copy = *copies->packed[index];
    if (packed.restore_entry != PackedOperand::kNoEntry) {
      copy.SetRestorer({.code = request.recipe->code(),
                        .function = request.recipe->function(packed.restore_entry),
                        .tasks = packed.kernel.tasks});
    }
    copy.SetReady();
  }
}

// All of them are traced as one kernel, because they ran as one loop.
void OperandPacker::TracePacking(const LaunchRequest& request, const std::vector<uint32_t>& packed,
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

synStatus OperandPacker::Pack(const LaunchRequest& request, uint64_t now,
                              const PackThreads& threads, LaunchCopies* copies) {
  const Recipe& recipe = request.recipe->recipe();
  const uint32_t count = static_cast<uint32_t>(recipe.packed.size());
  copies->packed.resize(count);
  copies->claimed.clear();
  copies->evicted.clear();
  if (count == 0) return synSuccess;
  std::lock_guard lock(request.recipe->pack_mutex());
  bool exhausted = false;
  for (uint32_t i = 0; i < count && !exhausted; ++i) {
    copies->packed[i] = FindPacked(request, now, i);
    exhausted = copies->packed[i] == nullptr;
    if (!exhausted && copies->packed[i]->Claim()) copies->claimed.push_back(i);
  }
  // This is done even when memory is short, because other launches may wait for the claimed copies.
  FillClaimed(request, threads, copies);
  if (exhausted) {
    return Fail(synOutOfHostMemory, "no memory for packed operands of ", recipe.name);
  }
  for (uint32_t i = 0; i < count; ++i) {
    copies->packed[i]->WaitReady();
    if (request.recipe->can_evict_source(i) && copies->packed[i]->CountUse()) {
      copies->evicted.push_back(copies->packed[i]);
    }
  }
  return synSuccess;
}

synStatus OperandPacker::Find(const LaunchRequest& request, uint64_t now,
                              const PackThreads& threads, LaunchCopies* copies) {
  const synStatus packed = Pack(request, now, threads, copies);
  return packed == synSuccess ? FindKept(request, now, copies) : packed;
}

}  // namespace hpu::emulator
