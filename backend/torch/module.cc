// Python bindings of _torch; _torch.pyi is their documentation.
#include <map>
#include <string>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/counters.h"
#include "backend/runtime/launch_history.h"
#include "backend/runtime/launch_modes.h"
#include "backend/runtime/profiling.h"
#include "backend/torch/device/activity_profiler.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/autograd_exit.h"
#include "backend/torch/device/cuda_wheel.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/generator.h"
#include "backend/torch/device/memory_snapshot.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/distributed/hccl_backend.h"
#include "backend/torch/eager/autocast.h"
#include "backend/torch/eager/dropout_switches.h"
#include "backend/torch/eager/extension_libraries.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/op_counts.h"
#include "backend/torch/eager/undeclared_writes.h"
#include "backend/torch/programs/graph_builder.h"
#include "backend/torch/programs/program.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/op_registration.h"
#include "backend/torch/record/recorder.h"
#include "backend/torch/record/replayable_call.h"
#include "backend/torch/record/replayable_graph.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using runtime::Device;
using runtime::Event;
using ReleaseGil = py::call_guard<py::gil_scoped_release>;

runtime::Stream& AcquiredStream(uint32_t id) { return *Check(AcquiredDevice().GetStream(id)); }

void BindDevice(py::module_& m) {
  m.def("initialize", [](const std::string& path) { Device::Get().SetDefaultLibrary(path); });
  m.def("acquire", [] { AcquiredDevice(); }, ReleaseGil());
  m.def("set_compile_only", [](bool on) { runtime::GetLaunchModes().compile_only = on; });
  m.def("set_sync_launch", [](bool on) { runtime::GetLaunchModes().wait_for_each = on; });
  m.def("is_acquired", [] { return Device::Get().acquired(); });
  m.def("is_available", [] { return Device::Get().Count() > 0; }, ReleaseGil());
  m.def("device_count", [] { return Device::Get().HostCount(); }, ReleaseGil());
  m.def("await_autograd_thread", &AwaitAutogradThread, ReleaseGil());
  m.def("is_in_bad_fork", [] { return Device::Get().in_bad_fork(); });
  m.def("device_name", [] { return AcquiredDevice().properties().name; }, ReleaseGil());
  m.def("device_kind", [] { return Check(Device::Get().Kind()); }, ReleaseGil());
  m.def(
      "device_type_number",
      [] { return static_cast<int>(AcquiredDevice().properties().info.deviceType); }, ReleaseGil());
  m.def("isa_level", [] { return Check(Device::Get().IsaLevel()); }, ReleaseGil());
  m.def("is_emulated", [] { return Check(Device::Get().IsEmulated()); }, ReleaseGil());
  m.def("extension_libraries", &ExtensionLibraries);
  m.def("list_custom_kernels", [] { return Check(Device::Get().ListKernels()); }, ReleaseGil());
  m.def("library_path", [] { return Device::Get().library_path(); });
  m.def("driver_version", [] { return Check(Device::Get().DriverVersion()); }, ReleaseGil());
  m.def("device_properties", [] {
    const synDeviceInfo& info = AcquiredDevice().properties().info;
    return std::map<std::string, uint64_t>{{"sramBaseAddress", info.sramBaseAddress},
                                           {"dramBaseAddress", info.dramBaseAddress},
                                           {"sramSize", info.sramSize},
                                           {"dramSize", info.dramSize},
                                           {"tpcEnabledMask", info.tpcEnabledMask},
                                           {"dramEnabled", info.dramEnabled},
                                           {"fd", info.fd},
                                           {"device_id", info.deviceId},
                                           {"device_type", static_cast<uint64_t>(info.deviceType)}};
  });
  m.def(
      "synchronize",
      [] {
        RefuseInCapture("a wait for the device");
        Check(AcquiredDevice().Synchronize());
      },
      ReleaseGil());
  m.def(
      "set_num_threads", [](int count) { Check(Device::Get().SetNumThreads(count)); },
      ReleaseGil());
}

runtime::MemoryStats Stats() {
  return Device::Get().acquired() ? Device::Get().allocator().stats() : runtime::MemoryStats{};
}

void BindMemory(py::module_& m) {
  m.def("memory_stats", [] {
    const runtime::MemoryStats stats = Stats();
    return std::map<std::string, uint64_t>{{"Limit", stats.limit},
                                           {"InUse", stats.in_use},
                                           {"MaxInUse", stats.max_in_use},
                                           {"NumAllocs", stats.num_allocs},
                                           {"NumFrees", stats.num_frees},
                                           {"ActiveAllocs", stats.active_allocs},
                                           {"MaxAllocSize", stats.max_alloc_size},
                                           {"TotalSystemAllocs", stats.total_system_allocs},
                                           {"TotalSystemFrees", stats.total_system_frees},
                                           {"TotalActiveAllocs", stats.total_active_allocs}};
  });
  m.def("memory_reserved", [] { return Stats().reserved; });
  m.def("max_memory_reserved", [] { return Stats().max_reserved; });
  m.def("reset_peak_memory_stats", [] { GetDeviceAllocator().resetPeakStats(0); });
  m.def("reset_accumulated_memory_stats", [] { GetDeviceAllocator().resetAccumulatedStats(0); });
  m.def("mem_get_info", [] { return GetDeviceAllocator().getMemoryInfo(0); }, ReleaseGil());
  m.def("empty_cache", [] { GetDeviceAllocator().emptyCache(); }, ReleaseGil());
  m.def("data_address", [](const at::Tensor& tensor) {
    TORCH_CHECK_VALUE(tensor.device().type() == c10::DeviceType::HPU,
                      "data_address: the tensor is on ", tensor.device());
    BeforeAccess(tensor.storage(), "data_ptr()");
    return AddressOf(tensor.const_data_ptr());
  });
}

void BindStreams(py::module_& m) {
  m.def("default_stream", [] { return 0; });
  m.def("current_stream", [] { return runtime::CurrentStreamId(); });
  m.def("set_stream", [](uint32_t id) { runtime::SetCurrentStreamId(AcquiredStream(id).id()); });
  m.def("stream_handle",
        [](uint32_t id) { return reinterpret_cast<uintptr_t>(AcquiredStream(id).handle()); });
  m.def("event_elapsed_ms", [](uintptr_t start, uintptr_t end) {
    TORCH_CHECK(start != 0 && end != 0,
                "elapsed_time needs events made with enable_timing=True, and both recorded");
    return Check(
        reinterpret_cast<const Event*>(start)->ElapsedMs(*reinterpret_cast<const Event*>(end)));
  });
}

void BindRandom(py::module_& m) {
  // Recorded calls draw their numbers before the state is read or set.
  m.def("manual_seed", [](uint64_t seed) {
    runtime::QueueRecorded(nullptr);
    at::Generator generator = DefaultGenerator();
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  });
  m.def("seed", [] {
    runtime::QueueRecorded(nullptr);
    at::Generator generator = DefaultGenerator();
    std::lock_guard lock(generator.mutex());
    return generator.seed();
  });
  m.def("initial_seed", [] { return DefaultGenerator().current_seed(); });
  m.def("get_rng_state", [] {
    runtime::QueueRecorded(nullptr);
    return DefaultGenerator().get_state();
  });
  m.def("set_rng_state", [](const at::Tensor& state) {
    runtime::QueueRecorded(nullptr);
    at::Generator(DefaultGenerator()).set_state(state);
  });
  m.def("default_generator",
        [] { return py::reinterpret_steal<py::object>(THPGenerator_Wrap(DefaultGenerator())); });
}

void BindWrites(py::module_& m) {
  m.def("undeclared_writes", [] {
    std::map<std::string, std::tuple<std::vector<std::string>, std::string>> all;
    for (const UndeclaredWrites& row : AllUndeclaredWrites()) {
      all[row.op] = {{row.arguments[0], row.arguments[1]},
                     row.condition == nullptr ? "" : row.condition};
    }
    return all;
  });
  m.def("dropout_switches", [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const DropoutSwitch& row : kDropoutSwitches) {
      all.emplace_back(row.op_namespace, row.argument);
    }
    return all;
  });
}

void BindLog(py::module_& m) {
  m.def("fallback_counts", &FallbackCounts);
  m.def("op_counts", &AllOpCounts);
  m.def("reset_op_counts", &ResetOpCounts);
  m.def("log_enabled",
        [](uint64_t module, uint64_t kind) { return runtime::LogEnabled(module, kind); });
  m.def("log_line", [](uint64_t module, uint64_t kind, const std::string& text) {
    if (runtime::LogEnabled(module, kind)) runtime::WriteLogLine(text);
  });
  m.def("reload_log_settings", [] {
    runtime::ReloadLogSettings();
    runtime::ReloadSourceLines();
    ReloadFallbackPolicy();
  });
  const std::map<const char*, runtime::LogModule> modules = {
      {"LOG_DEVICE", runtime::LogModule::kDevice},
      {"LOG_KERNEL", runtime::LogModule::kKernel},
      {"LOG_BRIDGE", runtime::LogModule::kBridge},
      {"LOG_SYNAPSE", runtime::LogModule::kSynapse},
      {"LOG_DISTRIBUTED", runtime::LogModule::kDistributed},
      {"LOG_LAZY", runtime::LogModule::kLazy},
      {"LOG_PINNED", runtime::LogModule::kPinnedMemory},
      {"LOG_FALLBACK", runtime::LogModule::kFallback}};
  for (const auto& [name, bit] : modules) m.attr(name) = static_cast<uint32_t>(bit);
  const std::map<const char*, runtime::LogKind> kinds = {
      {"LOG_FATAL", runtime::LogKind::kFatal},
      {"LOG_WARNING", runtime::LogKind::kWarning},
      {"LOG_TRACE", runtime::LogKind::kTrace},
      {"LOG_DEBUG", runtime::LogKind::kDebug}};
  for (const auto& [name, bit] : kinds) m.attr(name) = static_cast<uint32_t>(bit);
}

void BindCounters(py::module_& m) {
  m.def("launch_counters", [] {
    const runtime::Counters& counters = runtime::GetCounters();
    return std::map<std::string, uint64_t>{
        {"programs", counters.programs},           {"launches", counters.launches},
        {"eager_ops", counters.eager_ops},         {"recipes_loaded", counters.recipes_loaded},
        {"recipes_alive", counters.recipes_alive}, {"bytes_to_device", counters.bytes_to_device},
        {"bytes_to_host", counters.bytes_to_host}};
  });
}

py::dict ToDict(const runtime::TraceEvent& event) {
  py::dict arguments;
  for (const auto& [key, value] : event.arguments) {
    std::visit([&](const auto& plain) { arguments[py::str(key)] = plain; }, value);
  }
  using namespace pybind11::literals;  // NOLINT
  return py::dict("ph"_a = std::string(1, event.type), "name"_a = event.name,
                  "cat"_a = event.category, "pid"_a = event.process, "tid"_a = event.lane,
                  "id"_a = event.id, "start_ns"_a = event.start_ns,
                  "duration_ns"_a = event.duration_ns, "recipe"_a = event.recipe,
                  "args"_a = arguments);
}

void BindProfiling(py::module_& m) {
  m.def("start_trace", [] { Check(runtime::StartTrace()); }, ReleaseGil());
  m.def("stop_trace", [] {
    std::vector<runtime::TraceEvent> events;
    {
      const py::gil_scoped_release no_gil;
      events = Check(runtime::StopTrace(synTraceAll));
    }
    py::list result;
    for (const runtime::TraceEvent& event : events) result.append(ToDict(event));
    return result;
  });
  m.def("host_tracing", &runtime::HostTracing);
  m.def("trace_clock", [] { return Check(runtime::TraceClock()); }, ReleaseGil());
  m.def("add_host_interval", &runtime::AddHostInterval, ReleaseGil());
  m.def(
      "measure_host_peak",
      [] {
        const synEmulatorPeak peak = Check(runtime::MeasureHostPeak());
        return std::tuple(peak.f32FlopsPerSecond, peak.bf16FlopsPerSecond, peak.bytesPerSecond,
                          peak.l1Bytes, peak.l2Bytes, peak.l3Bytes);
      },
      ReleaseGil());
  m.def("trace_tasks", [](bool on) { Check(runtime::TraceTasks(on)); }, ReleaseGil());
}

// pybind11 handles std exceptions; PyTorch's exceptions carry their own Python types.
void TranslateErrors() {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(pointer);
    } catch (const torch::PyTorchError&) {
      torch::translate_exception_to_python(pointer);
    }
  });
}

}  // namespace

PYBIND11_MODULE(_torch, m) {
  m.doc() = "The hpu device for PyTorch; see _torch.pyi.";
  AddExceptionTypes(m.ptr());
  TranslateErrors();
  StepInForCudaWithoutDevice();
  RegisterAllocators();
  RegisterOpKernels();
  ReloadFallbackPolicy();
  AddProgramType(m.ptr());
  BindGraphBuilder(m);
  BindOpKernels(m);
  BindFrontEnd(m);
  BindReplayableCall(m);
  BindReplayableGraph(m);
  BindRecorder(m);
  BindAutocast(m);
  BindDevice(m);
  BindMemory(m);
  BindMemorySnapshot(m);
  BindStreams(m);
  BindRandom(m);
  BindWrites(m);
  BindLog(m);
  BindCounters(m);
  BindProfiling(m);
  RegisterActivityProfiler();
  RegisterDistributedKernels();
  BindDistributed(m);
}

}  // namespace hpu::torch_backend
