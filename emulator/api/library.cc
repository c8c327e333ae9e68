#include "emulator/api/library.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "emulator/base/status.h"
#include "emulator/profiler/trace_export.h"

namespace hpu::emulator {
namespace {

// The values of HABANA_PROFILE that make profiling possible but profile nothing by themselves.
constexpr std::string_view kOnDemand[] = {"", "0", "profile_api_light"};

std::string TracePath(const Configuration& configuration) {
  const std::string named = configuration.Text("EMULATOR_TRACE_FILE");
  return named.empty() ? "default_profiling_" + std::to_string(getpid()) + ".json" : named;
}

}  // namespace

Library& Library::Get() {
  static Library* library = new Library;
  return *library;
}

Library::Library() : configuration_(std::make_unique<Configuration>()) {
  pthread_atfork(nullptr, nullptr, [] {
    Library& library = Get();
    if (library.initialized()) library.forked_.store(true, std::memory_order_release);
    // No other thread is left that could hold the lock or change the pointer.
    if (library.device_ != nullptr) library.device_->module().Drop();
  });
}

synStatus Library::Initialize() {
  std::lock_guard lock(state_mutex_);
  if (initialized()) {
    if (!configuration_->Flag("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE")) return synSuccess;
    return Fail(synAlreadyInitialized, "the library is initialised already");
  }
  configuration_ = std::make_unique<Configuration>();
  const absl::Status faults = faults_.Configure(configuration_->Text("HPU_EMULATOR_FAULTS"));
  if (!faults.ok()) return Fail(synInvalidArgument, faults.message());
  const std::string device = configuration_->Text("HPU_EMULATOR_DEVICE");
  if (PropertiesByKey(device) == nullptr) {
    return Fail(synInvalidArgument, "HPU_EMULATOR_DEVICE=", device,
                ": allowed are gaudi, gaudi2 and gaudi3");
  }
  initialized_.store(true, std::memory_order_release);
  return synSuccess;
}

synStatus Library::Destroy() {
  std::lock_guard lock(state_mutex_);
  std::shared_ptr<Device> released;
  {
    std::unique_lock device_lock(device_mutex_);
    released = std::move(device_);
  }
  released.reset();
  EndProfilingSession();
  recipes_.Clear();
  tensors_.Clear();
  sections_.Clear();
  graphs_.Clear();
  errors_.Clear();
  profiler_.Stop(synTraceAll);
  initialized_.store(false, std::memory_order_release);
  return synSuccess;
}

std::shared_ptr<Device> Library::device() const {
  std::shared_lock lock(device_mutex_);
  return device_;
}

const DeviceProperties& Library::emulated() const {
  return *PropertiesByKey(configuration_->Text("HPU_EMULATOR_DEVICE"));
}

synStatus Library::AcquireDevice(synDeviceType type, std::optional<uint32_t> module) {
  std::lock_guard lock(state_mutex_);
  if (device() != nullptr) {
    return Fail(synDeviceAlreadyAcquired, "this process has acquired its device already");
  }
  SYN_RETURN_IF_FAILED(faults_.Check(FaultPoint::kAcquire));
  const DeviceProperties& properties = emulated();
  if (type != synDeviceTypeInvalid && type != properties.type) {
    return Fail(synNoDeviceFound, "no device of type ", type, ": this process emulates ",
                properties.name, " (HPU_EMULATOR_DEVICE)");
  }
  absl::StatusOr<ModuleClaim> claim = ModuleClaim::Claim(module);
  if (!claim.ok()) {
    const synStatus status = absl::IsInvalidArgument(claim.status()) ? synInvalidArgument
                             : absl::IsNotFound(claim.status())      ? synNoDeviceFound
                                                                     : synDeviceAlreadyAcquired;
    return Fail(status, claim.status().message());
  }
  const DeviceOptions options = {
      .pack_bytes = configuration_->Number("HPU_EMULATOR_PACK_BYTES"),
      .max_events = configuration_->Number("GCFG_NUM_OF_USER_STREAM_EVENTS"),
      .check_section_overlap = configuration_->Flag("CHECK_SECTION_OVERLAP"),
      .strict = strict(),
      .strict_seed = configuration_->Number("EMULATOR_STRICT_SEED")};
  absl::StatusOr<std::shared_ptr<Device>> created = Device::Create(
      std::move(claim).value(), properties, options, &counters_, &profiler_, &faults_);
  if (!created.ok()) {
    const bool bad_setting = absl::IsInvalidArgument(created.status());
    return Fail(bad_setting ? synInvalidArgument : synOutOfHostMemory, created.status().message());
  }
  StartProfilingSession();
  std::unique_lock device_lock(device_mutex_);
  device_ = std::move(created).value();
  return synSuccess;
}

synStatus Library::ReleaseDevice() {
  std::lock_guard lock(state_mutex_);
  std::shared_ptr<Device> released;
  {
    std::unique_lock device_lock(device_mutex_);
    if (device_ == nullptr) return Fail(synNoDeviceFound, "no device is acquired");
    // Calls in progress hold a reference.
    if (device_.use_count() > 1) {
      return Fail(synFail, "another thread is inside a call on the device");
    }
    released = std::move(device_);
  }
  released.reset();
  EndProfilingSession();
  return synSuccess;
}

absl::Status Library::WriteTrace(synTraceType type) {
  return WriteTraceJson(profiler_.Records(type), TracePath(*configuration_));
}

void Library::StartProfilingSession() {
  const char* variable = std::getenv("HABANA_PROFILE");
  const std::string_view value = variable == nullptr ? "" : variable;
  if (std::find(std::begin(kOnDemand), std::end(kOnDemand), value) != std::end(kOnDemand)) return;
  profiler_.StartSession();
  static std::once_flag once;  // the device may never be released
  std::call_once(once, [] { std::atexit([] { Get().EndProfilingSession(); }); });
}

void Library::EndProfilingSession() {
  if (forked() || !profiler_.EndSession()) return;
  const absl::Status written = WriteTrace(synTraceAll);
  if (written.ok()) {
    std::fprintf(stderr, "HABANA_PROFILE: the trace is in %s\n",
                 TracePath(*configuration_).c_str());
  } else {
    std::fprintf(stderr, "HABANA_PROFILE: %s\n", std::string(written.message()).c_str());
  }
}

synRecipeHandle Library::AddRecipe(Recipe recipe) {
  auto loaded = std::make_shared<LoadedRecipe>(std::move(recipe));
  loaded->on_unload = [this](uint64_t address, uint64_t bytes) {
    if (const std::shared_ptr<Device> current = device()) {
      current->executor().packs().Drop(address, bytes);
    }
  };
  Count(counters_.recipes_loaded);
  Count(counters_.code_bytes_loaded, loaded->recipe().code.size());
  return recipes_.Insert(std::move(loaded));
}

}  // namespace hpu::emulator
