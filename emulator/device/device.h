// The acquired device of this process: memory, mappings, streams, events and the executor that runs
// launches.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "emulator/base/handle_table.h"
#include "emulator/base/usage.h"
#include "emulator/device/module_claim.h"
#include "emulator/device/properties.h"
#include "emulator/memory/device_memory.h"
#include "emulator/memory/host_mappings.h"
#include "emulator/runtime/executor.h"
#include "emulator/streams/event.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

// Returns the number of a stream in traces: it is small, and others may get it once the stream is
// destroyed.
inline uint32_t StreamNumber(synStreamHandle handle) {
  return HandleTable<Stream, synStreamHandle>::IndexOf(handle);
}

struct DeviceOptions {
  uint64_t pack_bytes = 0;  // the most packed bytes to keep; 0 = half of DRAM
  uint64_t max_events = 0;
  bool check_section_overlap = true;
  bool strict = false;
  uint64_t strict_seed = 0;
};

class Device {
 public:
  static absl::StatusOr<std::shared_ptr<Device>> Create(ModuleClaim module,
                                                        const DeviceProperties& properties,
                                                        const DeviceOptions& options,
                                                        Counters* counters, Profiler* profiler,
                                                        FaultInjector* faults);
  // Finishes queued work.
  ~Device();

  ModuleClaim& module() { return module_; }
  const DeviceProperties& properties() const { return properties_; }
  DeviceMemory& memory() { return *memory_; }
  HostMappings& mappings() { return mappings_; }
  Executor& executor() { return executor_; }
  Usage& usage() { return usage_; }
  HandleTable<Stream, synStreamHandle>& streams() { return streams_; }
  HandleTable<Event, synEventHandle>& events() { return events_; }
  LaunchContext launch_context() const;
  bool is_strict() const { return options_.strict; }
  // Null except in strict mode.
  WorkOrder* work_order() { return work_order_.get(); }

  // Allocates host memory that is mapped for the device. Returns null when memory is exhausted.
  void* AllocateHost(uint64_t bytes);
  // Returns false if the buffer does not come from AllocateHost.
  bool FreeHost(const void* buffer);

  // These bracket an access of the host to device memory (synEmulatorHostAccessBegin).
  // EndHostAccess returns false if no access is open.
  void BeginHostAccess(uint64_t address, uint64_t bytes);
  bool EndHostAccess();

  // Synchronizes all streams and returns the first failure. `reason` receives what is known of it.
  synStatus Synchronize(std::string* reason);
  // Returns the next mask in turn, for clients that spread streams over hardware queues.
  uint64_t NextAffinity() { return uint64_t{1} << (next_affinity_.fetch_add(1) % kQueues); }
  static constexpr uint32_t kQueues = 4;

 private:
  Device(ModuleClaim module, const DeviceProperties& properties, const DeviceOptions& options,
         std::unique_ptr<DeviceMemory> memory, Counters* counters, Profiler* profiler,
         FaultInjector* faults);

  ModuleClaim module_;
  const DeviceProperties& properties_;
  const DeviceOptions options_;
  const std::unique_ptr<DeviceMemory> memory_;
  Usage usage_;
  HostMappings mappings_;
  std::mutex host_mutex_;
  std::map<const void*, AlignedBuffer> host_buffers_;
  std::atomic<uint32_t> next_affinity_{0};
  std::atomic<uint64_t> host_accesses_{0};
  Executor executor_;
  const std::unique_ptr<WorkOrder> work_order_;
  // These members come last because queued work uses everything above.
  HandleTable<Event, synEventHandle> events_;
  HandleTable<Stream, synStreamHandle> streams_;
};

}  // namespace hpu::emulator
