#include "backend/torch/device/allocator.h"

#include "backend/runtime/copy.h"
#include "backend/runtime/launch_modes.h"
#include "backend/torch/device/errors.h"

namespace hpu::torch_backend {

void CheckDeviceIndex(c10::DeviceIndex index) {
  if (index <= 0) return;
  const int count = runtime::Device::Get().HostCount();
  TORCH_CHECK(index < count, "hpu:", static_cast<int>(index), " does not exist: this host has ",
              count, " hpu devices, and a process holds one of them");
}
namespace {

using runtime::Device;
using runtime::DeviceBlock;
using runtime::HostBlock;
using runtime::MemoryStats;

void FreeDeviceBlock(void* context) {
  if (context == nullptr) return;
  Device::Get().allocator().Free(static_cast<DeviceBlock*>(context));
}

void FreeHostBlock(void* context) {
  if (context == nullptr) return;
  Device::Get().host_allocator().Free(static_cast<HostBlock*>(context));
}

// In compile-only mode nothing fills new memory, and what lies there by chance would become sizes,
// indices and branches of the user's code.
void Clear(runtime::Stream& stream, uint64_t address, size_t bytes) {
  Check(runtime::FillOnDevice(stream, address, 0, 1, bytes));
  Check(stream.Synchronize());
}

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    runtime::Stream& stream = CurrentStream();
    if (bytes == 0) return c10::DataPtr(nullptr, kHpuDevice);
    DeviceBlock* block = Check(stream.device().allocator().Allocate(bytes, stream));
    if (runtime::IsCompileOnly()) Clear(stream, block->address, bytes);
    return c10::DataPtr(reinterpret_cast<void*>(block->address), block, &FreeDeviceBlock,
                        kHpuDevice);
  }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    Check(runtime::CopyOnDevice(CurrentStream(), AddressOf(destination), AddressOf(source), bytes));
  }

  bool initialized() override { return Device::Get().acquired(); }

  void emptyCache(c10::MempoolId_t /*pool*/) override {
    if (initialized()) Check(Device::Get().EmptyCache());
  }

  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    if (DeviceBlock* block = BlockOf(data)) {
      Device::Get().allocator().RecordStream(block, StreamOf(stream));
    }
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex /*device*/) override {
    c10::CachingDeviceAllocator::DeviceStats result;
    if (!initialized()) return result;
    const MemoryStats stats = Device::Get().allocator().stats();
    const auto set = [](c10::CachingAllocator::StatArray& array, uint64_t current, uint64_t peak,
                        uint64_t allocated, uint64_t freed) {
      c10::CachingAllocator::Stat& stat =
          array[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
      stat.current = static_cast<int64_t>(current);
      stat.peak = static_cast<int64_t>(peak);
      stat.allocated = static_cast<int64_t>(allocated);
      stat.freed = static_cast<int64_t>(freed);
    };
    set(result.allocation, stats.active_allocs, 0, stats.num_allocs, stats.num_frees);
    set(result.segment, stats.total_active_allocs, 0, stats.total_system_allocs,
        stats.total_system_frees);
    set(result.allocated_bytes, stats.in_use, stats.max_in_use, 0, 0);
    set(result.active_bytes, stats.in_use, stats.max_in_use, 0, 0);
    set(result.reserved_bytes, stats.reserved, stats.max_reserved, 0, 0);
    result.num_device_alloc = static_cast<int64_t>(stats.total_system_allocs);
    result.num_device_free = static_cast<int64_t>(stats.total_system_frees);
    return result;
  }

  void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {
    if (initialized()) Device::Get().allocator().ResetAccumulated();
  }

  void resetPeakStats(c10::DeviceIndex /*device*/) override {
    if (initialized()) Device::Get().allocator().ResetPeak();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex /*device*/) override {
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    Check(AcquiredDevice().MemoryInfo(&free_bytes, &total_bytes));
    return {free_bytes, total_bytes};
  }
};

class PinnedMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    Device& device = AcquiredDevice();
    if (bytes == 0) return c10::DataPtr(nullptr, c10::kCPU);
    HostBlock* block = Check(device.host_allocator().Allocate(bytes));
    return c10::DataPtr(block->data, block, &FreeHostBlock, c10::kCPU);
  }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }

  bool record_event(void* pointer, void* /*context*/, c10::Stream stream) override {
    if (!Device::Get().acquired()) return false;
    runtime::HostAllocator& allocator = Device::Get().host_allocator();
    HostBlock* block = allocator.Find(pointer);
    if (block == nullptr) return false;
    allocator.RecordStream(block, StreamOf(stream));
    return true;
  }

  // Pinned buffers stay for reuse, because mapping them is the expensive part.
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

c10::DeviceAllocator& GetDeviceAllocator() {
  static auto* allocator = new DeviceMemory;
  return *allocator;
}

at::HostAllocator& GetPinnedAllocator() {
  static auto* allocator = new PinnedMemory;
  return *allocator;
}

void RegisterAllocators() {
  c10::SetAllocator(c10::DeviceType::HPU, &GetDeviceAllocator());
  at::setHostAllocator(c10::DeviceType::HPU, &GetPinnedAllocator());
}

runtime::Device& AcquiredDevice() {
  Device& device = Device::Get();
  Check(device.EnsureAcquired());
  return device;
}

runtime::Stream& CurrentStream() { return *Check(AcquiredDevice().CurrentStream()); }

runtime::Stream& StreamOf(c10::Stream stream) {
  return *Check(AcquiredDevice().GetStream(static_cast<uint32_t>(stream.id())));
}

runtime::DeviceBlock* BlockOf(const c10::DataPtr& data) {
  return data.get_deleter() == &FreeDeviceBlock ? static_cast<DeviceBlock*>(data.get_context())
                                                : nullptr;
}

}  // namespace hpu::torch_backend
