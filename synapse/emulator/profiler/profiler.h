// Traces of host calls and of the emulated engines (synProfiler*). Times are measured, not
// modelled: a kernel's interval is the time that its computation took on this host.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "synapse/emulator/recipe/recipe.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

struct TraceRecord {
  std::string name;
  std::string category;  // "host", "mme", "tpc", "dma"
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t engine_type = 0;   // process of the trace: 0 host, 1 device
  uint32_t engine_index = 0;  // lane in it: thread or engine
  std::string recipe;         // of a kernel
  std::vector<std::pair<std::string, std::string>> args;
};

class Profiler {
 public:
  bool host_tracing() const { return host_.load(std::memory_order_relaxed); }
  bool device_tracing() const { return device_.load(std::memory_order_relaxed); }

  // synTraceAll covers both. Starting drops what an earlier trace of the type has collected.
  void Start(synTraceType type);
  void Stop(synTraceType type);

  void AddKernel(const std::string& recipe, const KernelLaunch& kernel, uint64_t start_ns,
                 uint64_t end_ns);
  // `thread` empty: the calling thread.
  void AddHost(std::string name, uint64_t start_ns, uint64_t end_ns,
               std::vector<std::pair<std::string, std::string>> args = {},
               const std::string& thread = "");

  // Layout of synProfilerGetTrace: synTraceEvent[n], strings, size_t n, size_t version. Pointers in
  // the events point into the buffer. Null buffer: only size and count are computed.
  void Export(synTraceType type, void* buffer, size_t* size, size_t* num_events) const;
  // Trace Event Format, as browsers' trace viewers read it. NOT_FOUND: path cannot be written.
  absl::Status WriteJson(synTraceType type, const std::string& path) const;

 private:
  std::vector<TraceRecord> Select(synTraceType type) const;
  void Add(TraceRecord record);

  std::atomic<bool> host_{false};
  std::atomic<bool> device_{false};
  mutable std::mutex mutex_;
  std::vector<TraceRecord> records_;
};

// Records a host interval from construction to destruction if host tracing is on.
class HostInterval {
 public:
  HostInterval(Profiler* profiler, const char* name);
  ~HostInterval();
  HostInterval(const HostInterval&) = delete;
  HostInterval& operator=(const HostInterval&) = delete;

 private:
  Profiler* const profiler_;
  const char* const name_;
  const uint64_t start_ns_;
};

}  // namespace hpu::emulator
