#include "backend/torch/device/activity_profiler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/profiling.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

using libkineto::ActivityType;
using runtime::TraceEvent;

constexpr int64_t kDevice = 0;

// Returns the time of the emulated device's clock (synProfilerGetCurrentTimeNS).
uint64_t SteadyNanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

int64_t SystemNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) continue;
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

const uint64_t* NumberOf(const TraceEvent& event, std::string_view key) {
  for (const auto& [name, value] : event.arguments) {
    if (name == key) return std::get_if<uint64_t>(&value);
  }
  return nullptr;
}

// Records which operator of the host was running on a thread at a time.
class OperatorLog {
 public:
  void Push(uint64_t id) {
    std::lock_guard lock(mutex_);
    Thread& thread = threads_[gettid()];
    thread.open.push_back(id);
    thread.innermost.emplace_back(SteadyNanoseconds(), id);
  }
  void Pop() {
    std::lock_guard lock(mutex_);
    Thread& thread = threads_[gettid()];
    if (!thread.open.empty()) thread.open.pop_back();
    thread.innermost.emplace_back(SteadyNanoseconds(),
                                  thread.open.empty() ? 0 : thread.open.back());
  }
  // Returns 0 if there is none.
  uint64_t At(pid_t thread, uint64_t time_ns) const {
    std::lock_guard lock(mutex_);
    const auto found = threads_.find(thread);
    if (found == threads_.end()) return 0;
    const auto& changes = found->second.innermost;
    const auto after =
        std::upper_bound(changes.begin(), changes.end(), time_ns,
                         [](uint64_t time, const auto& change) { return time < change.first; });
    return after == changes.begin() ? 0 : std::prev(after)->second;
  }

 private:
  struct Thread {
    std::vector<uint64_t> open;
    std::vector<std::pair<uint64_t, uint64_t>> innermost;  // (start, id), by time
  };
  mutable std::mutex mutex_;
  std::map<pid_t, Thread> threads_;
};

class ProfilerSession : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    const absl::Status started = runtime::StartTrace();
    if (started.ok()) {
      status_ = libkineto::TraceStatus::RECORDING;
    } else {
      Fail(started);
    }
  }

  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) return;
    status_ = libkineto::TraceStatus::PROCESSING;
    auto events = runtime::StopTrace(synTraceDevice);
    const auto now = runtime::TraceClock();
    if (!events.ok() || !now.ok()) return Fail(events.ok() ? now.status() : events.status());
    epoch_ns_ = SystemNanoseconds() - static_cast<int64_t>(*now);
    events_ = *std::move(events);
  }

  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, 0);
  }

  void processTrace(libkineto::ActivityLogger& logger,
                    libkineto::getLinkedActivityCallback linked_activity, int64_t /*start_ns*/,
                    int64_t /*end_ns*/) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(0, 0, "hpu");
    buffer_->gpuOpCount = 0;
    for (const TraceEvent& event : events_) {
      if (event.type == 'M') TakeName(event);
      // A launch is the sum of its kernels, which are listed here; the call that made it belongs to
      // the host.
      if (event.type != 'X' || event.category == "launch") continue;
      logger.handleActivity(AddActivity(event, linked_activity));
    }
    events_.clear();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{kDevice, kDevice + libkineto::kExceedMaxPid, "hpu", process_name_});
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> rows;
    for (const auto& [row, number] : rows_) {
      const auto name = row_names_.find(row);
      rows.push_back({number, number, kDevice,
                      name == row_names_.end() ? "row " + std::to_string(number) : name->second});
    }
    return rows;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }

  void pushCorrelationId(uint64_t id) override { operators_.Push(id); }
  void popCorrelationId() override { operators_.Pop(); }

 private:
  using Row = std::pair<uint32_t, uint32_t>;  // process and lane in the library's trace

  void Fail(const absl::Status& status) {
    status_ = libkineto::TraceStatus::ERROR;
    errors_.emplace_back(status.message());
    BRIDGE_LOG(kBridge, kWarning, "torch.profiler shows no device rows: " << errors_.back());
  }

  void TakeName(const TraceEvent& event) {
    const auto* name = std::get_if<std::string>(&event.arguments.at(0).second);
    if (name == nullptr) return;
    if (event.name == "thread_name") row_names_[{event.process, event.lane}] = *name;
    if (event.name == "process_name" && process_name_.empty()) process_name_ = *name;
    if (event.name == "dropped_records") {
      BRIDGE_LOG(kBridge, kWarning,
                 "the trace was too long: " << *name << " records of the device are missing");
    }
  }

  const libkineto::GenericTraceActivity& AddActivity(
      const TraceEvent& event, const libkineto::getLinkedActivityCallback& linked_activity) {
    buffer_->emplace_activity(buffer_->span, ActivityType::HPU_OP, event.name);
    libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
    activity.startTime = epoch_ns_ + static_cast<int64_t>(event.start_ns);
    activity.endTime = activity.startTime + static_cast<int64_t>(event.duration_ns);
    activity.device = kDevice;
    activity.resource =
        rows_.emplace(Row{event.process, event.lane}, static_cast<int32_t>(rows_.size()))
            .first->second;
    activity.addMetadataQuoted("kind", Escaped(event.category));
    if (!event.recipe.empty()) activity.addMetadataQuoted("recipe", Escaped(event.recipe));
    for (const auto& [key, value] : event.arguments) {
      if (const auto* number = std::get_if<uint64_t>(&value)) {
        activity.addMetadata(key, *number);
      } else if (const auto* text = std::get_if<std::string>(&value)) {
        activity.addMetadataQuoted(key, Escaped(*text));
      }
    }
    const uint64_t* thread = NumberOf(event, "host_thread");
    const uint64_t* queued_ns = NumberOf(event, "queued_ns");
    if (thread != nullptr && queued_ns != nullptr) {
      const uint64_t id = operators_.At(static_cast<pid_t>(*thread), *queued_ns);
      activity.id = static_cast<int32_t>(id);
      if (id != 0) activity.linked = linked_activity(static_cast<int32_t>(id));
    }
    return activity;
  }

  std::vector<TraceEvent> events_;
  std::vector<std::string> errors_;
  int64_t epoch_ns_ = 0;  // the epoch of the trace's clock
  std::map<Row, int32_t> rows_;
  std::map<Row, std::string> row_names_;
  std::string process_name_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  OperatorLog operators_;
};

class ActivityProfiler : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }

  // Returns null if the profile does not ask for the device.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& requested, const libkineto::Config& /*config*/) override {
    if (!requested.contains(ActivityType::HPU_OP) || !runtime::DeviceTracesAllowed()) {
      return nullptr;
    }
    return std::make_unique<ProfilerSession>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t /*start_ms*/, int64_t /*duration_ms*/, const std::set<ActivityType>& requested,
      const libkineto::Config& config) override {
    return configure(requested, config);
  }

 private:
  const std::string name_ = "hpu";
  const std::set<ActivityType> activities_ = {ActivityType::HPU_OP};
};

}  // namespace

void RegisterActivityProfiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<ActivityProfiler>(); });
}

}  // namespace hpu::torch_backend
