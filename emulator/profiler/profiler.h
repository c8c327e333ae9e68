// Traces of host calls and of the emulated engines (synProfiler*). Times are measured, not
// modelled: a kernel's interval is the time that its computation took on this host.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/profiler/trace_record.h"
#include "recipe/recipe.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

// Identifies the call that queued a piece of work. The number is 0 for work that was queued
// untraced.
struct WorkOrigin {
  uint32_t stream = 0;
  uint32_t host_thread = 0;
  uint64_t number = 0;
  uint64_t queued_ns = 0;
};

struct TraceInterval {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
};

struct LaunchInterval {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t threads = 1;
  uint64_t cpu_ns = 0;  // of the whole process
};

struct KernelTrace {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint64_t busy_ns = 0;                 // the time in which threads ran tasks, added up
  std::vector<uint64_t> piece_ns = {};  // empty unless task_times()
};

class Profiler {
 public:
  // Returns whether traced kernels are to run piece by piece (synEmulatorTraceTasks).
  bool task_times() const { return task_times_.load(std::memory_order_relaxed); }
  void SetTaskTimes(bool on) { task_times_.store(on, std::memory_order_relaxed); }

  bool host_tracing() const { return host_.load(std::memory_order_relaxed); }
  bool device_tracing() const { return device_.load(std::memory_order_relaxed); }

  // synTraceAll covers both types. Starting drops the records of an earlier trace of the type.
  void Start(synTraceType type);
  void Stop(synTraceType type);
  // These bracket a trace of everything from StartSession to the end of the process
  // (HABANA_PROFILE). While it runs, Start and Stop neither drop nor end anything. EndSession
  // returns false if no session ran.
  void StartSession();
  bool EndSession();

  // Returns the origin of work that the calling thread queues now; it has no number while nothing
  // is traced.
  WorkOrigin Origin(uint32_t stream);

  // Adds a launch that ran. `kernels` are the last kernels of the recipe, in order (all except a
  // prologue that was left out).
  void AddLaunch(std::shared_ptr<const Recipe> recipe, const WorkOrigin& origin,
                 const LaunchInterval& interval, std::vector<KernelTrace> kernels);
  // Adds the work that rearranged operands for a launch of `recipe`, as one kernel.
  void AddPacking(const std::string& recipe, const KernelLaunch& packing, uint32_t stream,
                  const TraceInterval& interval);
  void AddCopy(const char* name, const WorkOrigin& origin, const TraceInterval& interval,
               uint64_t bytes);
  // An empty `thread` means the calling thread.
  void AddHost(std::string name, const TraceInterval& interval,
               std::vector<TraceArgument> arguments = {}, const std::string& thread = "");

  // Returns the collected records of that type, by start time, after the names of their processes
  // and lanes.
  std::vector<TraceRecord> Records(synTraceType type) const;

 private:
  struct Launch {
    std::shared_ptr<const Recipe> recipe;
    WorkOrigin origin;
    LaunchInterval interval;
    std::vector<KernelTrace> kernels;
  };

  // The caller holds mutex_. Returns false, and counts that, if the trace is full.
  bool TakeRoom(size_t records);
  void Add(TraceRecord record);

  std::atomic<bool> host_{false};
  std::atomic<bool> device_{false};
  std::atomic<bool> task_times_{false};
  std::atomic<uint64_t> next_number_{1};
  mutable std::mutex mutex_;  // guards the members below
  bool session_ = false;
  std::vector<TraceRecord> records_;
  std::vector<Launch> launches_;
  size_t size_ = 0;  // in records, where kernels count one by one
  size_t dropped_ = 0;
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
