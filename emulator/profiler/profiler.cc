#include "emulator/profiler/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "emulator/base/clock.h"

namespace hpu::emulator {
namespace {

// The number of records is limited, so that a forgotten trace does not use up the host's memory.
constexpr size_t kMaxRecords = 1 << 20;
constexpr size_t kTimesPerRecord = 16;
constexpr uint32_t kEngines = 3;
constexpr const char* kEngineNames[kEngines] = {"MME", "TPC", "DMA"};
constexpr const char* kEngineCategories[kEngines] = {"mme", "tpc", "dma"};

// Kernels of two streams may run at the same time, so they get lanes of their own.
uint32_t EngineLane(Engine engine, uint32_t stream) {
  return stream * kEngines + static_cast<uint32_t>(engine);
}

std::string LaneName(TraceProcess process, uint32_t lane) {
  switch (process) {
    case TraceProcess::kHost:
      return "thread " + std::to_string(lane);
    case TraceProcess::kEngines: {
      const std::string engine = kEngineNames[lane % kEngines];
      return lane < kEngines ? engine : engine + ", stream " + std::to_string(lane / kEngines);
    }
    case TraceProcess::kStreams:
      return "stream " + std::to_string(lane);
  }
  return "";
}

const char* ProcessName(TraceProcess process) {
  switch (process) {
    case TraceProcess::kHost:
      return "host";
    case TraceProcess::kEngines:
      return "engines of the emulated device (CPU timings)";
    case TraceProcess::kStreams:
      return "streams of the emulated device (CPU timings)";
  }
  return "";
}

TraceRecord Name(const char* what, TraceProcess process, uint32_t lane, std::string name) {
  return {.type = 'M',
          .name = what,
          .category = "",
          .process = process,
          .lane = lane,
          .recipe = "",
          .arguments = {{"name", std::move(name)}}};
}

// Returns the names of the processes and lanes that `records` use.
std::vector<TraceRecord> Names(const std::vector<TraceRecord>& records) {
  std::set<std::pair<TraceProcess, uint32_t>> lanes;
  for (const TraceRecord& record : records) lanes.emplace(record.process, record.lane);
  std::vector<TraceRecord> names;
  for (const auto& [process, lane] : lanes) {
    if (names.empty() || names.back().process != process) {
      names.push_back(Name("process_name", process, 0, ProcessName(process)));
    }
    names.push_back(Name("thread_name", process, lane, LaneName(process, lane)));
  }
  return names;
}

TraceRecord KernelRecord(const KernelLaunch& kernel, const std::string& recipe, uint32_t stream,
                         const TraceInterval& interval) {
  return {.name = kernel.name,
          .category = kEngineCategories[static_cast<uint32_t>(kernel.engine)],
          .start_ns = interval.start_ns,
          .end_ns = interval.end_ns,
          .process = TraceProcess::kEngines,
          .lane = EngineLane(kernel.engine, stream),
          .recipe = recipe,
          .arguments = {{"tasks", kernel.tasks},
                        {"grain", kernel.grain},
                        {"bytes", kernel.bytes},
                        {"flops", kernel.flops},
                        {"factors", FactorName(kernel.factors)}}};
}

// Returns the arguments that link a piece of device work to the host call that queued it.
std::vector<TraceArgument> QueuedBy(const WorkOrigin& origin) {
  if (origin.number == 0) return {};
  return {{"work", origin.number},
          {"queued_ns", origin.queued_ns},
          {"host_thread", uint64_t{origin.host_thread}}};
}

void AddArrow(const WorkOrigin& origin, TraceProcess process, uint32_t lane, uint64_t start_ns,
              std::vector<TraceRecord>* records) {
  if (origin.number == 0) return;
  TraceRecord end{.type = 's',
                  .name = "queued",
                  .category = "flow",
                  .start_ns = origin.queued_ns,
                  .end_ns = origin.queued_ns,
                  .process = TraceProcess::kHost,
                  .lane = origin.host_thread,
                  .id = origin.number,
                  .recipe = "",
                  .arguments = {}};
  records->push_back(end);
  end.type = 'f';
  end.start_ns = end.end_ns = start_ns;
  end.process = process;
  end.lane = lane;
  records->push_back(std::move(end));
}

// Returns the number of records that a launch with these kernels counts as.
size_t Room(const std::vector<KernelTrace>& kernels) {
  size_t times = 0;
  for (const KernelTrace& kernel : kernels) times += kernel.piece_ns.size();
  return 1 + kernels.size() + times / kTimesPerRecord;
}

std::string Joined(const std::vector<uint64_t>& numbers) {
  std::string text;
  for (const uint64_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

bool Wanted(synTraceType type, const TraceRecord& record) {
  if (type == synTraceAll) return true;
  if (record.type == 's' || record.type == 'f') return false;
  return (type == synTraceHost) == (record.process == TraceProcess::kHost);
}

}  // namespace

void Profiler::Start(synTraceType type) {
  std::lock_guard lock(mutex_);
  if (session_) return;
  std::erase_if(records_, [&](const TraceRecord& record) { return Wanted(type, record); });
  if (type != synTraceHost) launches_.clear();
  size_ = records_.size();
  for (const Launch& launch : launches_) size_ += Room(launch.kernels);
  dropped_ = 0;
  if (type != synTraceDevice) host_.store(true);
  if (type != synTraceHost) device_.store(true);
}

void Profiler::Stop(synTraceType type) {
  std::lock_guard lock(mutex_);
  if (session_) return;
  if (type != synTraceDevice) host_.store(false);
  if (type != synTraceHost) device_.store(false);
}

void Profiler::StartSession() {
  Start(synTraceAll);
  std::lock_guard lock(mutex_);
  session_ = true;
}

bool Profiler::EndSession() {
  {
    std::lock_guard lock(mutex_);
    if (!session_) return false;
    session_ = false;
  }
  Stop(synTraceAll);
  return true;
}

WorkOrigin Profiler::Origin(uint32_t stream) {
  if (!device_tracing()) return {.stream = stream};
  return {.stream = stream,
          .host_thread = static_cast<uint32_t>(gettid()),
          .number = next_number_.fetch_add(1, std::memory_order_relaxed),
          .queued_ns = NowNanoseconds()};
}

bool Profiler::TakeRoom(size_t records) {
  if (size_ + records > kMaxRecords) {
    dropped_ += records;
    return false;
  }
  size_ += records;
  return true;
}

void Profiler::Add(TraceRecord record) {
  std::lock_guard lock(mutex_);
  if (TakeRoom(1)) records_.push_back(std::move(record));
}

void Profiler::AddLaunch(std::shared_ptr<const Recipe> recipe, const WorkOrigin& origin,
                         const LaunchInterval& interval, std::vector<KernelTrace> kernels) {
  std::lock_guard lock(mutex_);
  if (!TakeRoom(Room(kernels))) return;
  launches_.push_back({std::move(recipe), origin, interval, std::move(kernels)});
}

void Profiler::AddPacking(const std::string& recipe, const KernelLaunch& packing, uint32_t stream,
                          const TraceInterval& interval) {
  Add(KernelRecord(packing, recipe, stream, interval));
}

void Profiler::AddCopy(const char* name, const WorkOrigin& origin, const TraceInterval& interval,
                       uint64_t bytes) {
  std::vector<TraceArgument> arguments = QueuedBy(origin);
  arguments.emplace_back("bytes", bytes);
  Add({.name = name,
       .category = "copy",
       .start_ns = interval.start_ns,
       .end_ns = interval.end_ns,
       .process = TraceProcess::kEngines,
       .lane = EngineLane(Engine::kDma, origin.stream),
       .recipe = "",
       .arguments = std::move(arguments)});
}

void Profiler::AddHost(std::string name, const TraceInterval& interval,
                       std::vector<TraceArgument> arguments, const std::string& thread) {
  if (!thread.empty()) arguments.emplace_back("thread", thread);
  Add({.name = std::move(name),
       .category = "host",
       .start_ns = interval.start_ns,
       .end_ns = interval.end_ns,
       .process = TraceProcess::kHost,
       .lane = static_cast<uint32_t>(gettid()),
       .recipe = "",
       .arguments = std::move(arguments)});
}

std::vector<TraceRecord> Profiler::Records(synTraceType type) const {
  std::vector<TraceRecord> all;
  size_t dropped = 0;
  {
    std::lock_guard lock(mutex_);
    dropped = dropped_;
    all = records_;
    for (const Launch& launch : launches_) {
      const Recipe& recipe = *launch.recipe;
      const WorkOrigin& origin = launch.origin;
      all.push_back({.name = recipe.name,
                     .category = "launch",
                     .start_ns = launch.interval.start_ns,
                     .end_ns = launch.interval.end_ns,
                     .process = TraceProcess::kStreams,
                     .lane = origin.stream,
                     .recipe = recipe.name,
                     .arguments = QueuedBy(origin)});
      all.back().arguments.emplace_back("kernels", uint64_t{launch.kernels.size()});
      all.back().arguments.emplace_back("threads", uint64_t{launch.interval.threads});
      all.back().arguments.emplace_back("cpu_ns", launch.interval.cpu_ns);
      AddArrow(origin, TraceProcess::kStreams, origin.stream, launch.interval.start_ns, &all);
      const size_t left_out = recipe.kernels.size() - launch.kernels.size();
      for (size_t k = 0; k < launch.kernels.size(); ++k) {
        const KernelTrace& kernel = launch.kernels[k];
        all.push_back(KernelRecord(recipe.kernels[left_out + k], recipe.name, origin.stream,
                                   {kernel.start_ns, kernel.end_ns}));
        std::vector<TraceArgument>& arguments = all.back().arguments;
        arguments.emplace_back("kernel", uint64_t{left_out + k});
        arguments.emplace_back("busy_ns", kernel.busy_ns);
        if (!kernel.piece_ns.empty()) {
          arguments.emplace_back("task_ns", Joined(kernel.piece_ns));
        }
        std::ranges::move(QueuedBy(origin), std::back_inserter(arguments));
      }
    }
  }
  std::erase_if(all, [&](const TraceRecord& record) { return !Wanted(type, record); });
  // If two intervals begin together, the longer one contains the other.
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
  });
  std::vector<TraceRecord> records = Names(all);
  if (dropped > 0) {
    records.push_back(Name("dropped_records", TraceProcess::kHost, 0, std::to_string(dropped)));
  }
  records.insert(records.end(), std::make_move_iterator(all.begin()),
                 std::make_move_iterator(all.end()));
  return records;
}

HostInterval::HostInterval(Profiler* profiler, const char* name)
    : profiler_(profiler),
      name_(name),
      start_ns_(profiler->host_tracing() ? NowNanoseconds() : 0) {}

HostInterval::~HostInterval() {
  if (start_ns_ != 0) profiler_->AddHost(name_, {start_ns_, NowNanoseconds()});
}

}  // namespace hpu::emulator
