// The state of the library in this process: the part between synInitialize and synDestroy, and the
// part that survives.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "emulator/base/counters.h"
#include "emulator/base/handle_table.h"
#include "emulator/config/configuration.h"
#include "emulator/device/device.h"
#include "emulator/faults/fault_injector.h"
#include "emulator/graph/graph.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/loaded_recipe.h"

namespace hpu::emulator {

// The result of a failed synGraphCompileV2.
struct ErrorObject {
  synStatus status = synFail;
  std::string message;
};

class Library {
 public:
  // The library is never destroyed, because its threads may run until the process ends.
  static Library& Get();

  synStatus Initialize();
  synStatus Destroy();
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // Returns whether the process is a fork of one that had initialised the library: it has no
  // threads, and its locks are in an unknown state.
  bool forked() const { return forked_.load(std::memory_order_acquire); }

  // Returns null when no device is acquired.
  std::shared_ptr<Device> device() const;
  // synDeviceTypeInvalid as `type` means any, and so does no `module`.
  synStatus AcquireDevice(synDeviceType type, std::optional<uint32_t> module = std::nullopt);
  synStatus ReleaseDevice();
  // Returns the type that this process emulates (HPU_EMULATOR_DEVICE).
  const DeviceProperties& emulated() const;

  // Returns whether the device behaves as a card does (EMULATOR_STRICT).
  bool strict() const { return configuration_->Flag("EMULATOR_STRICT"); }
  Configuration& configuration() { return *configuration_; }
  FaultInjector& faults() { return faults_; }
  Counters& counters() { return counters_; }
  Profiler& profiler() { return profiler_; }

  HandleTable<Graph, synGraphHandle>& graphs() { return graphs_; }
  HandleTable<Tensor, synTensor>& tensors() { return tensors_; }
  HandleTable<Section, synSectionHandle>& sections() { return sections_; }
  HandleTable<LoadedRecipe, synRecipeHandle>& recipes() { return recipes_; }
  HandleTable<ErrorObject, synErrorHandle>& errors() { return errors_; }

  // Writes the profiler's records of that type to EMULATOR_TRACE_FILE, or to
  // default_profiling_<process>.json in the working directory.
  absl::Status WriteTrace(synTraceType type);
  // Ends and writes the trace of the whole use of the device (HABANA_PROFILE), if there is one.
  void EndProfilingSession();

  // Makes a handle for a recipe.
  synRecipeHandle AddRecipe(Recipe recipe);

 private:
  Library();

  void StartProfilingSession();

  std::mutex state_mutex_;  // guards Initialize, Destroy, Acquire and Release
  std::atomic<bool> initialized_{false};
  std::atomic<bool> forked_{false};
  mutable std::shared_mutex device_mutex_;
  std::shared_ptr<Device> device_;

  std::unique_ptr<Configuration> configuration_;
  FaultInjector faults_;
  Counters counters_;
  Profiler profiler_;
  HandleTable<Graph, synGraphHandle> graphs_;
  HandleTable<Tensor, synTensor> tensors_;
  HandleTable<Section, synSectionHandle> sections_;
  HandleTable<LoadedRecipe, synRecipeHandle> recipes_;
  HandleTable<ErrorObject, synErrorHandle> errors_;
};

}  // namespace hpu::emulator
