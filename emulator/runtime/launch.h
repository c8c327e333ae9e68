// Turns a client's launch table into queued work: the validation of the table (reference 4.6) and
// the work object.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "emulator/memory/device_memory.h"
#include "emulator/memory/host_mappings.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/loaded_recipe.h"
#include "emulator/streams/progress.h"

namespace hpu::emulator {

// Signals `progress` when the first `after_kernels` kernels of the recipe have run.
struct LaunchSignal {
  uint32_t after_kernels = 0;
  std::shared_ptr<Progress> progress;
};

struct LaunchRequest {
  std::shared_ptr<LoadedRecipe> recipe;
  std::shared_ptr<const BoundTable> table;
  std::vector<LaunchSignal> signals;  // by after_kernels
  WorkOrigin origin;
};

struct LaunchTable {
  const synLaunchTensorInfo* entries = nullptr;
  uint32_t count = 0;
  uint64_t workspace = 0;
  uint32_t flags = 0;
};

struct LaunchContext {
  const DeviceMemory* memory = nullptr;
  const HostMappings* mappings = nullptr;
  synDeviceType device_type = synDeviceGaudi2;
  bool check_overlap = true;
};

// Sets request->table, or says why the table does not fit. A table that equals the last one bound
// for the recipe is only compared, as long as no device memory was freed in between.
synStatus BindLaunch(const LaunchContext& context, const LaunchTable& table,
                     LaunchRequest* request);

}  // namespace hpu::emulator
