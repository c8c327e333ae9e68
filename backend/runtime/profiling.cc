#include "backend/runtime/profiling.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "backend/runtime/device.h"
#include "backend/runtime/syn_status.h"

namespace hpu::runtime {

std::atomic<bool> internal::host_tracing{WholeProcessTraced()};

namespace {

struct RunningTrace {
  std::mutex mutex;
  bool running = false;
  uint64_t start_ns = 0;
};

RunningTrace& Running() {
  static RunningTrace* trace = new RunningTrace;
  return *trace;
}

std::string_view Setting() {
  const char* value = std::getenv("HABANA_PROFILE");
  return value == nullptr ? "" : value;
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

TraceEvent::Argument ToArgument(const synTraceEventArg& argument) {
  switch (argument.type) {
    case SYN_TRACE_ARG_UINT64:
      return {Text(argument.key), argument.value.u64};
    case SYN_TRACE_ARG_DOUBLE:
      return {Text(argument.key), argument.value.f64};
    case SYN_TRACE_ARG_CHAR_PTR:
      break;
  }
  return {Text(argument.key), Text(argument.value.str)};
}

uint64_t Nanoseconds(long double microseconds) {
  return static_cast<uint64_t>(std::llround(microseconds * 1000));
}

TraceEvent ToEvent(const synTraceEvent& raw) {
  TraceEvent event;
  event.type = raw.type;
  event.name = Text(raw.name);
  event.category = Text(raw.category);
  event.process = raw.engineType;
  event.lane = raw.engineIndex;
  event.id = raw.contextId;
  event.start_ns = Nanoseconds(raw.timestamp);
  event.duration_ns = Nanoseconds(raw.duration);
  if (raw.type == 'M') {
    event.arguments.emplace_back("name", Text(raw.arguments.metadata.name));
  } else if (raw.type == 'X') {
    event.recipe = Text(raw.arguments.event.recipeName);
    const synTraceEventExtraArgs& extra = raw.arguments.event.extraArgs;
    for (uint8_t i = 0; i < extra.count; ++i) {
      event.arguments.push_back(ToArgument(extra.args[i]));
    }
  }
  return event;
}

// Gives a card's profiler device memory to write to. The memory is never freed, because the
// profiler may write at any time.
absl::Status GiveBuffer(Device& device) {
  static DeviceBlock* buffer = nullptr;
  uint32_t bytes = 0;
  RETURN_IF_SYN_ERROR(device.api(), synProfilerQueryRequiredMemory, device.id(), &bytes);
  if (bytes == 0 || buffer != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(Stream* const stream, device.GetStream(0));
  ASSIGN_OR_RETURN(buffer, device.allocator().Allocate(bytes, *stream));
  RETURN_IF_SYN_ERROR(device.api(), synProfilerSetUserBuffer, device.id(),
                      reinterpret_cast<void*>(buffer->address));
  return absl::OkStatus();
}

// A trace of the whole process may grow between the two calls.
absl::StatusOr<std::vector<TraceEvent>> ReadTrace(Device& device, synTraceType type) {
  const SynapseFunctions& api = device.api();
  std::vector<std::max_align_t> storage;
  size_t count = 0;
  for (int attempt = 0;; ++attempt) {
    size_t bytes = 0;
    RETURN_IF_SYN_ERROR(api, synProfilerGetTrace, type, device.id(), synTraceFormatTEF, nullptr,
                        &bytes, &count);
    bytes += bytes / 8;
    storage.resize(bytes / sizeof(std::max_align_t) + 1);
    const synStatus status = api.synProfilerGetTrace(type, device.id(), synTraceFormatTEF,
                                                     storage.data(), &bytes, &count);
    if (status == synSuccess) break;
    if (attempt == 3) return ToStatus(api, status, "synProfilerGetTrace");
  }
  std::vector<TraceEvent> events;
  events.reserve(count);
  const auto* raw = reinterpret_cast<const char*>(storage.data());
  for (size_t i = 0; i < count; ++i) {
    synTraceEvent event;
    std::memcpy(&event, raw + i * sizeof(event), sizeof(event));
    events.push_back(ToEvent(event));
  }
  return events;
}

}  // namespace

bool DeviceTracesAllowed() { return Setting() != "0"; }

bool WholeProcessTraced() {
  return !Setting().empty() && Setting() != "0" && Setting() != "profile_api_light";
}

absl::StatusOr<uint64_t> TraceClock() {
  Device& device = Device::Get();
  RETURN_IF_ERROR(device.EnsureLibrary());
  uint64_t now = 0;
  RETURN_IF_SYN_ERROR(device.api(), synProfilerGetCurrentTimeNS, &now);
  return now;
}

absl::Status StartTrace() {
  if (!DeviceTracesAllowed()) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "HABANA_PROFILE=0 forbids traces of the device; unset it");
  }
  Device& device = Device::Get();
  RunningTrace& trace = Running();
  std::lock_guard lock(trace.mutex);
  if (trace.running) {
    return Error(absl::StatusCode::kFailedPrecondition, "a trace of the device is running already");
  }
  RETURN_IF_ERROR(device.EnsureLibrary());
  if (device.acquired()) {
    RETURN_IF_ERROR(device.Synchronize());
    RETURN_IF_ERROR(GiveBuffer(device));
  } else if (!device.api().is_emulator()) {
    return Error(absl::StatusCode::kFailedPrecondition,
                 "the hpu device must be in use before a trace of it can start");
  }
  ASSIGN_OR_RETURN(trace.start_ns, TraceClock());
  RETURN_IF_SYN_ERROR(device.api(), synProfilerStart, synTraceAll, device.id());
  trace.running = true;
  internal::host_tracing.store(true);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TraceEvent>> StopTrace(synTraceType type) {
  Device& device = Device::Get();
  RunningTrace& trace = Running();
  std::lock_guard lock(trace.mutex);
  if (!trace.running) {
    return Error(absl::StatusCode::kFailedPrecondition, "no trace of the device is running");
  }
  trace.running = false;
  internal::host_tracing.store(WholeProcessTraced());
  const absl::Status waited = device.acquired() ? device.Synchronize() : absl::OkStatus();
  RETURN_IF_SYN_ERROR(device.api(), synProfilerStop, synTraceAll, device.id());
  RETURN_IF_ERROR(waited);
  ASSIGN_OR_RETURN(std::vector<TraceEvent> events, ReadTrace(device, type));
  if (device.api().is_emulator()) {
    // With a trace of the whole process, the library's trace goes back further than this one.
    std::erase_if(events, [&](const TraceEvent& event) {
      return event.type != 'M' && event.start_ns < trace.start_ns;
    });
  }
  return events;
}

absl::StatusOr<synEmulatorPeak> MeasureHostPeak() {
  Device& device = Device::Get();
  RETURN_IF_ERROR(device.EnsureAcquired());
  RETURN_IF_ERROR(device.Synchronize());
  if (device.api().synEmulatorMeasurePeak == nullptr) {
    return Unimplemented(device.library_path(), " does not measure the peak of its device");
  }
  synEmulatorPeak peak{};
  RETURN_IF_SYN_ERROR(device.api(), synEmulatorMeasurePeak, &peak);
  return peak;
}

absl::Status TraceTasks(bool on) {
  Device& device = Device::Get();
  RETURN_IF_ERROR(device.EnsureLibrary());
  if (device.api().synEmulatorTraceTasks == nullptr) {
    return Unimplemented(device.library_path(), " does not say how long tasks of kernels take");
  }
  RETURN_IF_SYN_ERROR(device.api(), synEmulatorTraceTasks, on ? 1 : 0);
  return absl::OkStatus();
}

void HostRange::Begin(std::string_view kind, std::string_view name, uint64_t bytes) {
  const absl::StatusOr<uint64_t> now = TraceClock();
  if (!now.ok()) return;
  kind_ = kind;
  name_ = name;
  bytes_ = bytes;
  start_ns_ = *now;
}

void HostRange::End() {
  const SynapseFunctions& api = Device::Get().api();
  std::string text(kind_);
  if (!name_.empty()) text.append(" ").append(name_);
  if (bytes_ == 0 || api.synProfilerAddCustomMeasurementArgs == nullptr) {
    api.synProfilerAddCustomMeasurement(text.c_str(), start_ns_);
    return;
  }
  const std::string value = std::to_string(bytes_);
  const char* arguments[] = {"bytes", value.c_str()};
  api.synProfilerAddCustomMeasurementArgs(text.c_str(), start_ns_, arguments, 2);
}

void AddHostInterval(const std::string& name, uint64_t start_ns, uint64_t end_ns) {
  if (!HostTracing() || !Device::Get().EnsureLibrary().ok()) return;
  const SynapseFunctions& api = Device::Get().api();
  if (api.synProfilerAddCustomEvent != nullptr) {
    api.synProfilerAddCustomEvent(name.c_str(), start_ns, end_ns, nullptr, 0);
  }
}

}  // namespace hpu::runtime
