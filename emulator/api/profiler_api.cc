// Profiler (reference 1.13).
#include "emulator/api/entry.h"
#include "emulator/base/clock.h"
#include "emulator/profiler/trace_export.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus WriteTrace(synTraceType type) {
  const absl::Status status = Library::Get().WriteTrace(type);
  return status.ok() ? synSuccess : Fail(synFail, status.message());
}

bool IsTraceType(synTraceType type) { return type >= synTraceAll && type < synTraceTypeSize; }

synStatus AddMeasurement(const char* text, uint64_t start, uint64_t end, const char** args,
                         size_t num_args, const char* thread) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(text != nullptr && start <= end && num_args % 2 == 0);
    SYN_REQUIRE_ARGUMENT(num_args == 0 || args != nullptr);
    Profiler& profiler = Library::Get().profiler();
    if (!profiler.host_tracing()) return synSuccess;
    std::vector<TraceArgument> pairs;
    for (size_t i = 0; i < num_args; i += 2) {
      SYN_REQUIRE_ARGUMENT(args[i] != nullptr && args[i + 1] != nullptr);
      pairs.emplace_back(args[i], std::string(args[i + 1]));
    }
    profiler.AddHost(text, {start, end}, std::move(pairs), thread == nullptr ? "" : thread);
    return synSuccess;
  });
}

}  // namespace

synStatus synProfilerQueryRequiredMemory(synDeviceId, uint32_t* bytes) {
  return DeviceCall([&](Device&) -> synStatus {
    SYN_REQUIRE_ARGUMENT(bytes != nullptr);
    *bytes = 0;
    return synSuccess;
  });
}

synStatus synProfilerSetUserBuffer(synDeviceId, void* /*buffer*/) {
  return DeviceCall([](Device&) { return synSuccess; });
}

synStatus synProfilerStart(synTraceType type, synDeviceId) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(IsTraceType(type));
    if (type == synTraceDevice && Library::Get().device() == nullptr) {
      return Fail(synFail, "a device trace needs an acquired device");
    }
    Library::Get().profiler().Start(type);
    return synSuccess;
  });
}

synStatus synProfilerStop(synTraceType type, synDeviceId) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(IsTraceType(type));
    Library& library = Library::Get();
    library.profiler().Stop(type);
    return library.configuration().Text("EMULATOR_TRACE_FILE").empty() ? synSuccess
                                                                       : WriteTrace(type);
  });
}

synStatus synProfilerGetTrace(synTraceType type, synDeviceId, synTraceFormat format, void* buffer,
                              size_t* size, size_t* num_events) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(IsTraceType(type) && format == synTraceFormatTEF);
    Library& library = Library::Get();
    if (size == nullptr) return WriteTrace(type);
    SYN_REQUIRE_ARGUMENT(num_events != nullptr);
    const std::vector<TraceRecord> records = library.profiler().Records(type);
    size_t needed = 0;
    ExportEvents(records, nullptr, &needed, num_events);
    if (buffer != nullptr) {
      if (*size < needed) {
        return Fail(synInvalidArgument, "the trace needs ", needed, " bytes, the buffer has ",
                    *size);
      }
      ExportEvents(records, buffer, &needed, num_events);
    }
    *size = needed;
    return synSuccess;
  });
}

synStatus synProfilerGetCurrentTimeNS(uint64_t* nanoseconds) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(nanoseconds != nullptr);
    *nanoseconds = NowNanoseconds();
    return synSuccess;
  });
}

synStatus synProfilerAddCustomMeasurement(const char* text, uint64_t nanoseconds) {
  return AddMeasurement(text, nanoseconds, NowNanoseconds(), nullptr, 0, nullptr);
}

synStatus synProfilerAddCustomMeasurementArgs(const char* text, uint64_t nanoseconds,
                                              const char** args, size_t num_args) {
  return AddMeasurement(text, nanoseconds, NowNanoseconds(), args, num_args, nullptr);
}

synStatus synProfilerAddCustomMeasurementArgsAndThread(const char* text, uint64_t nanoseconds,
                                                       const char** args, size_t num_args,
                                                       const char* thread) {
  return AddMeasurement(text, nanoseconds, NowNanoseconds(), args, num_args, thread);
}

synStatus synProfilerAddCustomEvent(const char* text, uint64_t start, uint64_t end,
                                    const char** args, size_t num_args) {
  return AddMeasurement(text, start, end, args, num_args, nullptr);
}
