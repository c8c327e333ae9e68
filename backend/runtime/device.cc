#include "backend/runtime/device.h"

#include <pthread.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/syn_status.h"
#include "synapse/device_kind.h"

namespace hpu::runtime {
namespace {
constexpr uint32_t kPoolStreams = 8;
}  // namespace

Device& Device::Get() {
  static Device* device = new Device;  // outlives tensors that die late
  return *device;
}

Device::Device() { pthread_atfork(nullptr, nullptr, &Device::AfterForkInChild); }

void Device::AfterForkInChild() {
  Device& device = Get();
  // A fork while another thread was acquiring the device leaves mutex_ locked for ever, so the
  // device is unusable then, too.
  if (device.acquired() || device.acquiring_.load()) device.state_.store(State::kForked);
}

absl::Status Device::NotUsable() const {
  if (in_bad_fork()) {
    return Error(
        absl::StatusCode::kFailedPrecondition,
        "the hpu device was acquired by the parent process and cannot be used after fork; "
        "start workers with the multiprocessing method \"spawn\", or use the device in the "
        "parent only after they were started");
  }
  return Error(absl::StatusCode::kFailedPrecondition, "the hpu device has not been acquired");
}

void Device::SetDefaultLibrary(const std::string& path) {
  std::lock_guard lock(mutex_);
  default_library_ = path;
}

absl::Status Device::EnsureLibrary() {
  if (in_bad_fork()) return NotUsable();
  std::lock_guard lock(mutex_);
  return EnsureLibraryLocked();
}

absl::Status Device::EnsureLibraryLocked() {
  if (api_ != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SynapseFunctions* const api, LoadSynapse(default_library_));
  const synStatus status = api->synInitialize();
  // The compile client of this process may have started the library already.
  if (status != synSuccess && status != synAlreadyInitialized &&
      status != synObjectAlreadyInitialized) {
    return ToStatus(*api, status, "synInitialize");
  }
  library_path_ = api->path;
  properties_.emulated = api->is_emulator();
  properties_.host_addressable = api->host_addressable();
  api_ = api;
  BRIDGE_LOG(kDevice, kDebug,
             "library path=" << library_path_ << " emulated=" << properties_.emulated);
  return absl::OkStatus();
}

int Device::Count() {
  if (acquired()) return 1;
  uint32_t count = 0;
  if (!EnsureLibrary().ok() || api_->synDeviceGetCount(&count) != synSuccess) return 0;
  return count > 0 ? 1 : 0;
}

int Device::HostCount() {
  uint32_t count = 0;
  if (!EnsureLibrary().ok() || api_->synDeviceGetCount(&count) != synSuccess) return 0;
  return static_cast<int>(count);
}

absl::StatusOr<synDeviceType> Device::FindType() {
  uint32_t all = 0;
  const synStatus counted = api_->synDeviceGetCount(&all);
  if (counted != synSuccess) return ToStatus(*api_, counted, "synDeviceGetCount");
  for (int number = 0; number < synDeviceTypeInvalid; ++number) {
    const auto type = static_cast<synDeviceType>(number);
    uint32_t count = 0;
    if (api_->synDeviceGetCountByDeviceType(&count, type) == synSuccess && count > 0) return type;
  }
  std::string hidden;
  for (const char* name : {"HABANA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) hidden += std::string("; ") + name + "=" + value + " may hide them all";
  }
  return Error(absl::StatusCode::kFailedPrecondition, "no device found by ", library_path_, hidden);
}

absl::StatusOr<std::string> Device::Kind() {
  RETURN_IF_ERROR(EnsureLibrary());
  if (acquired()) return DeviceKind(properties_.info.deviceType);
  ASSIGN_OR_RETURN(const synDeviceType type, FindType());
  return DeviceKind(type);
}

absl::StatusOr<std::string> Device::IsaLevel() {
  RETURN_IF_ERROR(EnsureLibrary());
  if (api_->synEmulatorGetIsaLevel == nullptr) return std::string();
  char level[64] = "";
  RETURN_IF_SYN_ERROR(*api_, synConfigurationGet, "EMULATOR_ISA_LEVEL", level, sizeof(level));
  if (level[0] == '\0') {
    RETURN_IF_SYN_ERROR(*api_, synEmulatorGetIsaLevel, level, sizeof(level));
  }
  return std::string(level);
}

absl::StatusOr<bool> Device::IsEmulated() {
  RETURN_IF_ERROR(EnsureLibrary());
  return properties_.emulated;
}

absl::StatusOr<uint32_t> Device::FindKernel(const std::string& guid) {
  RETURN_IF_ERROR(EnsureLibrary());
  uint32_t version = 0;
  if (api_->synEmulatorFindKernel == nullptr) return version;
  RETURN_IF_SYN_ERROR(*api_, synEmulatorFindKernel, guid.c_str(), &version);
  return version;
}

absl::StatusOr<std::string> Device::ListKernels() {
  RETURN_IF_ERROR(EnsureLibrary());
  if (api_->synEmulatorListKernels == nullptr) return std::string();
  size_t size = 0;
  RETURN_IF_SYN_ERROR(*api_, synEmulatorListKernels, nullptr, 0, &size);
  std::string text(size, '\0');
  RETURN_IF_SYN_ERROR(*api_, synEmulatorListKernels, text.data(), text.size(), &size);
  text.resize(size - 1);
  return text;
}

absl::StatusOr<std::string> Device::DriverVersion() {
  RETURN_IF_ERROR(EnsureLibrary());
  char version[256] = "";
  RETURN_IF_SYN_ERROR(*api_, synDriverGetVersion, version, sizeof(version));
  return std::string(version);
}

absl::Status Device::SetNumThreads(int count) {
  if (count < 1) return InvalidArgument("set_num_threads: ", count, " is not a positive number");
  std::lock_guard lock(mutex_);
  num_threads_ = count;
  if (!acquired() || api_->synEmulatorSetComputeThreads == nullptr) return absl::OkStatus();
  RETURN_IF_SYN_ERROR(*api_, synEmulatorSetComputeThreads, static_cast<uint32_t>(count));
  return absl::OkStatus();
}

absl::Status Device::Acquire() {
  if (in_bad_fork()) return NotUsable();
  std::lock_guard lock(mutex_);
  if (acquired()) return absl::OkStatus();
  acquiring_.store(true);
  const absl::Status status = AcquireLocked();
  if (!status.ok() && id_ != SYN_INVALID_DEVICE_ID) {
    api_->synDeviceRelease(id_);  // so that a later attempt starts from the beginning
    id_ = SYN_INVALID_DEVICE_ID;
  }
  acquiring_.store(false);
  return status;
}

absl::Status Device::AcquireLocked() {
  RETURN_IF_ERROR(EnsureLibraryLocked());
  RETURN_IF_ERROR(TakeDevice());
  if (num_threads_ > 0 && api_->synEmulatorSetComputeThreads != nullptr) {
    RETURN_IF_SYN_ERROR(*api_, synEmulatorSetComputeThreads, static_cast<uint32_t>(num_threads_));
  }
  char name[256] = "";
  RETURN_IF_SYN_ERROR(*api_, synDeviceGetName, name, sizeof(name), id_);
  RETURN_IF_SYN_ERROR(*api_, synDeviceGetInfo, id_, &properties_.info);
  uint64_t free_bytes = 0;
  RETURN_IF_SYN_ERROR(*api_, synDeviceGetMemoryInfo, id_, &free_bytes, &properties_.total_bytes);
  properties_.name = name;
  allocator_ = std::make_unique<DeviceAllocator>(*this, properties_.total_bytes);
  host_allocator_ = std::make_unique<HostAllocator>(*this);
  synStreamHandle handle = nullptr;
  RETURN_IF_SYN_ERROR(*api_, synStreamCreateGeneric, &handle, id_, 0);
  streams_[0].store(new Stream(*this, 0, handle));
  state_.store(State::kAcquired, std::memory_order_release);
  BRIDGE_LOG(kDevice, kDebug,
             "device acquired name=" << name << " memory=" << properties_.total_bytes
                                     << " library=" << library_path_);
  return absl::OkStatus();
}

// Read-only inputs of a program may share memory (two slices of one tensor), which a launch would
// refuse. Inputs that are written are checked before the launch (AliasedInputs). A library that
// does not have these keys keeps its check and names the sections in its error.
void Device::AllowOverlappingInputs() {
  if (api_->synConfigurationSet("ENABLE_EXPERIMENTAL_FLAGS", "true") != synSuccess ||
      api_->synConfigurationSet("CHECK_SECTION_OVERLAP", "false") != synSuccess) {
    BRIDGE_LOG(kSynapse, kWarning, "CHECK_SECTION_OVERLAP cannot be switched off");
  }
}

absl::Status Device::TakeDevice() {
  AllowOverlappingInputs();
  const char* module = std::getenv("HLS_MODULE_ID");
  if (module != nullptr && *module != '\0') {
    synModuleId module_id = 0;
    const char* end = module + std::strlen(module);
    if (std::from_chars(module, end, module_id).ptr != end) {
      return InvalidArgument("HLS_MODULE_ID=", module, " is not a number");
    }
    RETURN_IF_SYN_ERROR(*api_, synDeviceAcquireByModuleId, &id_, module_id);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const synDeviceType type, FindType());
  RETURN_IF_SYN_ERROR(*api_, synDeviceAcquireByDeviceType, &id_, type);
  return absl::OkStatus();
}

absl::StatusOr<Stream*> Device::GetStream(uint32_t id) {
  RETURN_IF_ERROR(CheckUsable());
  if (id >= kMaxStreams) {
    return InvalidArgument("stream id ", id, " is outside [0, ", kMaxStreams, ")");
  }
  if (Stream* stream = streams_[id].load(std::memory_order_acquire)) return stream;
  std::lock_guard lock(mutex_);
  if (Stream* stream = streams_[id].load(std::memory_order_relaxed)) return stream;
  synStreamHandle handle = nullptr;
  RETURN_IF_SYN_ERROR(*api_, synStreamCreateGeneric, &handle, id_, 0);
  auto* stream = new Stream(*this, id, handle);
  streams_[id].store(stream, std::memory_order_release);
  if (id != 0 && !has_several_streams()) RaiseUntrackedPosition();
  return stream;
}

void Device::RaiseUntrackedPosition() {
  Stream* const first = streams_[0].load(std::memory_order_acquire);
  const uint64_t position = first != nullptr ? first->NextPosition() : 1;
  uint64_t before = untracked_position_.load(std::memory_order_relaxed);
  while (before < position && !untracked_position_.compare_exchange_weak(before, position)) {
  }
}

uint32_t Device::NextStreamId() { return 1 + next_stream_.fetch_add(1) % kPoolStreams; }

std::optional<uint32_t> Device::TakeStream() {
  for (uint32_t id = 1 + kPoolStreams; id < kMaxStreams; ++id) {
    if (!taken_streams_[id].exchange(true)) return id;
  }
  return std::nullopt;
}

void Device::GiveBackStream(uint32_t id) { taken_streams_[id].store(false); }

absl::Status Device::Synchronize() {
  QueueRecorded(nullptr);
  RETURN_IF_ERROR(CheckUsable());
  std::array<uint64_t, kMaxStreams> queued{};
  for (uint32_t i = 0; i < kMaxStreams; ++i) {
    if (Stream* stream = streams_[i].load()) queued[i] = stream->launches().count();
  }
  absl::Status waited = ToStatus(*api_, api_->synDeviceSynchronize(id_), "synDeviceSynchronize");
  for (uint32_t i = 0; i < kMaxStreams; ++i) {
    Stream* stream = streams_[i].load();
    if (stream == nullptr) continue;
    waited = WithSuspects(waited, stream->launches());
    stream->launches().Settle(queued[i]);
  }
  return waited;
}

absl::Status Device::MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) {
  RETURN_IF_ERROR(CheckUsable());
  RETURN_IF_SYN_ERROR(*api_, synDeviceGetMemoryInfo, id_, free_bytes, total_bytes);
  return absl::OkStatus();
}

absl::Status Device::EmptyCache() { return allocator_->EmptyCache(); }

void Device::BeginHostAccess(uint64_t address, uint64_t bytes) {
  if (api_->synEmulatorHostAccessBegin != nullptr) api_->synEmulatorHostAccessBegin(address, bytes);
}

void Device::EndHostAccess() {
  if (api_->synEmulatorHostAccessEnd != nullptr) api_->synEmulatorHostAccessEnd();
}

void Device::NotifyHostWrite(uint64_t address, uint64_t bytes) {
  if (api_->synEmulatorHostWrite != nullptr) api_->synEmulatorHostWrite(address, bytes);
}

}  // namespace hpu::runtime
