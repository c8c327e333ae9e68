#include "backend/runtime/host_memory.h"

#include <algorithm>
#include <bit>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/device.h"
#include "backend/runtime/stream.h"
#include "backend/runtime/syn_status.h"

namespace hpu::runtime {
namespace {
constexpr uint64_t kSmallestBlock = 512;
}  // namespace

absl::StatusOr<HostBlock*> HostAllocator::Allocate(uint64_t bytes) {
  RETURN_IF_ERROR(device_.CheckUsable());
  if (bytes > (uint64_t{1} << 46)) return InvalidArgument("pinned memory of ", bytes, " bytes");
  const uint64_t rounded = std::bit_ceil(std::max(bytes, kSmallestBlock));
  std::lock_guard lock(mutex_);
  HostBlock* block = TakeCached(rounded);
  if (block == nullptr) {
    void* data = nullptr;
    const synStatus status = device_.api().synHostMalloc(device_.id(), rounded, 0, &data);
    RETURN_IF_ERROR_AT(ToStatus(device_.api(), status, "synHostMalloc"),
                       "pinned memory of " + std::to_string(rounded) + " bytes");
    block = new HostBlock;
    block->data = data;
    block->bytes = rounded;
    blocks_.emplace(reinterpret_cast<uintptr_t>(data), block);
    BRIDGE_LOG(kPinnedMemory, kDebug, "pinned alloc bytes=" << rounded << " at=" << data);
  }
  block->allocated = true;
  return block;
}

HostBlock* HostAllocator::TakeCached(uint64_t bytes) {
  const auto [first, last] = free_.equal_range(bytes);
  for (auto it = first; it != last; ++it) {
    HostBlock* block = it->second;
    if (!Finished(*block)) continue;
    free_.erase(it);
    return block;
  }
  return nullptr;
}

bool HostAllocator::Finished(HostBlock& block) {
  while (!block.pending.empty()) {
    if (device_.api().synEventQuery(block.pending.back()) == synBusy) return false;
    device_.api().synEventDestroy(block.pending.back());
    block.pending.pop_back();
  }
  return true;
}

void HostAllocator::Free(HostBlock* block) {
  if (!device_.CheckUsable().ok()) return;
  std::lock_guard lock(mutex_);
  HPU_CHECK(block->allocated, "host block freed twice");
  block->allocated = false;
  for (Stream* stream : block->used_by) {
    synEventHandle event = nullptr;
    if (device_.api().synEventCreate(&event, device_.id(), 0) == synSuccess &&
        device_.api().synEventRecord(event, stream->handle()) == synSuccess) {
      block->pending.push_back(event);
      continue;
    }
    if (event != nullptr) device_.api().synEventDestroy(event);
    device_.api().synStreamSynchronize(stream->handle());
  }
  block->used_by.clear();
  free_.emplace(block->bytes, block);
}

HostBlock* HostAllocator::Find(const void* pointer) {
  if (!device_.CheckUsable().ok()) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  HostBlock* block = std::prev(after)->second;
  const auto start = reinterpret_cast<uintptr_t>(block->data);
  return block->allocated && address < start + block->bytes ? block : nullptr;
}

void HostAllocator::RecordStream(HostBlock* block, Stream& stream) {
  std::lock_guard lock(mutex_);
  if (std::find(block->used_by.begin(), block->used_by.end(), &stream) == block->used_by.end()) {
    block->used_by.push_back(&stream);
  }
}

}  // namespace hpu::runtime
