#include "emulator/device/device.h"

namespace hpu::emulator {

absl::StatusOr<std::shared_ptr<Device>> Device::Create(ModuleClaim module,
                                                       const DeviceProperties& properties,
                                                       const DeviceOptions& options,
                                                       Counters* counters, Profiler* profiler,
                                                       FaultInjector* faults) {
  ASSIGN_OR_RETURN(const uint64_t bytes, DramBytes(properties.dram_bytes));
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory,
                   DeviceMemory::Create(bytes, options.strict));
  return std::shared_ptr<Device>(new Device(std::move(module), properties, options,
                                            std::move(memory), counters, profiler, faults));
}

Device::Device(ModuleClaim module, const DeviceProperties& properties, const DeviceOptions& options,
               std::unique_ptr<DeviceMemory> memory, Counters* counters, Profiler* profiler,
               FaultInjector* faults)
    : module_(std::move(module)),
      properties_(properties),
      options_(options),
      memory_(std::move(memory)),
      usage_(memory_->total_bytes(), module_.module()),
      executor_(memory_->view(),
                options.pack_bytes != 0 ? options.pack_bytes : memory_->total_bytes() / 2, counters,
                profiler, faults),
      work_order_(options.strict ? std::make_unique<WorkOrder>(options.strict_seed) : nullptr),
      events_(options.max_events) {}

Device::~Device() { streams_.Clear(); }

LaunchContext Device::launch_context() const {
  return {.memory = memory_.get(),
          .mappings = &mappings_,
          .device_type = properties_.type,
          .check_overlap = options_.check_section_overlap};
}

void* Device::AllocateHost(uint64_t bytes) {
  AlignedBuffer buffer(bytes);
  void* data = buffer.data();
  if (data == nullptr) return nullptr;
  mappings_.Map(reinterpret_cast<uint64_t>(data), bytes);
  std::lock_guard lock(host_mutex_);
  host_buffers_.emplace(data, std::move(buffer));
  return data;
}

bool Device::FreeHost(const void* buffer) {
  AlignedBuffer freed_after_unlock;
  std::lock_guard lock(host_mutex_);
  const auto found = host_buffers_.find(buffer);
  if (found == host_buffers_.end()) return false;
  mappings_.Unmap(reinterpret_cast<uint64_t>(buffer));
  freed_after_unlock = std::move(found->second);
  host_buffers_.erase(found);
  return true;
}

void Device::BeginHostAccess(uint64_t address, uint64_t bytes) {
  PackCache& packs = executor_.packs();
  packs.BeginAccess();
  packs.MakeResident(address, bytes);
  host_accesses_.fetch_add(1, std::memory_order_release);
}

bool Device::EndHostAccess() {
  uint64_t open = host_accesses_.load(std::memory_order_acquire);
  do {
    if (open == 0) return false;
  } while (!host_accesses_.compare_exchange_weak(open, open - 1, std::memory_order_acq_rel));
  executor_.packs().EndAccess();
  return true;
}

synStatus Device::Synchronize(std::string* reason) {
  synStatus first = synSuccess;
  for (const std::shared_ptr<Stream>& stream : streams_.All()) {
    const synStatus status = stream->Synchronize();
    if (first != synSuccess || status == synSuccess) continue;
    first = status;
    *reason = stream->progress()->reason();
  }
  return first;
}

}  // namespace hpu::emulator
