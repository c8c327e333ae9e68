// The two forms in which a trace leaves the library.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/profiler/trace_record.h"

namespace hpu::emulator {

// The layout is that of synProfilerGetTrace: synTraceEvent[n], strings, arguments, size_t n, size_t
// version. Pointers in the events point into the buffer. With a null buffer only size and count are
// computed.
void ExportEvents(const std::vector<TraceRecord>& records, void* buffer, size_t* size,
                  size_t* num_events);

// Writes JSON of the Trace Event Format, which Perfetto and chrome://tracing read. Returns
// NOT_FOUND if the path cannot be written.
absl::Status WriteTraceJson(const std::vector<TraceRecord>& records, const std::string& path);

}  // namespace hpu::emulator
