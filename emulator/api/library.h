// State of the library in this process: between synInitialize and synDestroy, and what survives.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
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

// Result of a failed synGraphCompileV2.
struct ErrorObject {
  synStatus status = synFail;
  std::string message;
};

class Library {
 public:
  // Never destroyed: threads of the library may run until the process ends.
  static Library& Get();

  synStatus Initialize();
  synStatus Destroy();
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // The process is a fork of one that had initialised: no threads, locks in unknown state.
  bool forked() const { return forked_.load(std::memory_order_acquire); }

  // Null when no device is acquired.
  std::shared_ptr<Device> device() const;
  // `type` synDeviceTypeInvalid = any.
  synStatus AcquireDevice(synDeviceType type);
  synStatus ReleaseDevice();
  // Type that this process emulates (HPU_EMULATOR_DEVICE).
  const DeviceProperties& emulated() const;

  Configuration& configuration() { return *configuration_; }
  FaultInjector& faults() { return faults_; }
  Counters& counters() { return counters_; }
  Profiler& profiler() { return profiler_; }

  HandleTable<Graph, synGraphHandle>& graphs() { return graphs_; }
  HandleTable<Tensor, synTensor>& tensors() { return tensors_; }
  HandleTable<Section, synSectionHandle>& sections() { return sections_; }
  HandleTable<LoadedRecipe, synRecipeHandle>& recipes() { return recipes_; }
  HandleTable<ErrorObject, synErrorHandle>& errors() { return errors_; }

  // Writes what the profiler has of that type to EMULATOR_TRACE_FILE, or to
  // default_profiling_<process>.json in the working directory.
  absl::Status WriteTrace(synTraceType type);
  // Ends and writes the trace of the whole use of the device (HABANA_PROFILE), if one runs.
  void EndProfilingSession();

  // Makes a handle for a recipe.
  synRecipeHandle AddRecipe(Recipe recipe);

 private:
  Library();

  void StartProfilingSession();

  std::mutex state_mutex_;  // of Initialize, Destroy, Acquire and Release
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
