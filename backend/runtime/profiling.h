// Traces of this process through the profiler of the Synapse API: our own host intervals, and the
// library's records of its calls, launches and kernels. There is one trace at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "synapse/include/synapse_api_types.h"
#include "synapse/include/synapse_emulator.h"

namespace hpu::runtime {

// One record of a trace, in the terms of the Trace Event Format.
struct TraceEvent {
  using Argument = std::pair<std::string, std::variant<uint64_t, double, std::string>>;
  char type = 'X';  // 'X' interval, 'M' a name (argument "name"), 's' and 'f' ends of an arrow
  std::string name;
  std::string category;
  uint32_t process = 0;
  uint32_t lane = 0;
  uint64_t id = 0;  // the same for both ends of an arrow
  uint64_t start_ns = 0;
  uint64_t duration_ns = 0;
  std::string recipe;
  std::vector<Argument> arguments;
};

namespace internal {
extern std::atomic<bool> host_tracing;
}

// Returns whether host intervals are recorded: during a trace with host calls, and always in a
// process that is profiled as a whole (HABANA_PROFILE).
inline bool HostTracing() { return internal::host_tracing.load(std::memory_order_relaxed); }

// HABANA_PROFILE: "0" forbids traces of the device; unset or "profile_api_light" allows them; any
// other value makes the library trace the whole process.
bool DeviceTracesAllowed();
bool WholeProcessTraced();

// Loads the library and waits for the device if it is acquired, so that only later work is
// recorded. A device that is acquired during the trace is included if it is the emulated one;
// others must be acquired before. Returns FAILED_PRECONDITION if that is not so, if a trace is
// running, or if traces are forbidden.
absl::Status StartTrace();
// Waits for the device, then returns the events of that type. Returns FAILED_PRECONDITION if no
// trace is running.
absl::StatusOr<std::vector<TraceEvent>> StopTrace(synTraceType type);

// Returns the clock of the events, in nanoseconds.
absl::StatusOr<uint64_t> TraceClock();

// Measures the best that the host's CPUs reach. Returns UNIMPLEMENTED on a device that is not
// emulated.
absl::StatusOr<synEmulatorPeak> MeasureHostPeak();

// While this is on, traced kernels run one task after the other, and the trace contains the time of
// each (synEmulatorTraceTasks). Returns UNIMPLEMENTED on a device that is not emulated.
absl::Status TraceTasks(bool on);

// Records a host interval in the trace, named "<kind> <name>", from construction to destruction.
class HostRange {
 public:
  // `kind` and `name` must outlive the object. `bytes` is an argument of the interval unless it is
  // 0.
  HostRange(std::string_view kind, std::string_view name, uint64_t bytes = 0) {
    if (HostTracing()) Begin(kind, name, bytes);
  }
  ~HostRange() {
    if (start_ns_ != 0) End();
  }
  HostRange(const HostRange&) = delete;
  HostRange& operator=(const HostRange&) = delete;

 private:
  void Begin(std::string_view kind, std::string_view name, uint64_t bytes);
  void End();

  std::string_view kind_;
  std::string_view name_;
  uint64_t bytes_ = 0;
  uint64_t start_ns_ = 0;
};

// Records an interval with explicit times of TraceClock(). Does nothing without a trace.
void AddHostInterval(const std::string& name, uint64_t start_ns, uint64_t end_ns);

}  // namespace hpu::runtime
