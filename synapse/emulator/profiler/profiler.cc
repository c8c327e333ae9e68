#include "synapse/emulator/profiler/profiler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "synapse/emulator/streams/event.h"

namespace hpu::emulator {
namespace {

constexpr uint32_t kHostProcess = 0;
constexpr uint32_t kDeviceProcess = 1;
constexpr size_t kTraceVersion = 1;
// A forgotten trace must not eat the host's memory.
constexpr size_t kMaxRecords = 1 << 20;

const char* EngineName(Engine engine) {
  switch (engine) {
    case Engine::kMme:
      return "mme";
    case Engine::kTpc:
      return "tpc";
    case Engine::kDma:
      return "dma";
  }
  return "";
}

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

// Strings of an exported trace: collects them, then hands out their addresses in the buffer.
class StringPool {
 public:
  size_t Add(const std::string& text) {
    const size_t at = bytes_.size();
    bytes_.append(text.c_str(), text.size() + 1);
    return at;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

bool Wanted(synTraceType type, const TraceRecord& record) {
  return type == synTraceAll || (type == synTraceHost) == (record.engine_type == kHostProcess);
}

}  // namespace

void Profiler::Start(synTraceType type) {
  std::lock_guard lock(mutex_);
  std::erase_if(records_, [&](const TraceRecord& record) { return Wanted(type, record); });
  if (type != synTraceDevice) host_.store(true);
  if (type != synTraceHost) device_.store(true);
}

void Profiler::Stop(synTraceType type) {
  if (type != synTraceDevice) host_.store(false);
  if (type != synTraceHost) device_.store(false);
}

void Profiler::Add(TraceRecord record) {
  std::lock_guard lock(mutex_);
  if (records_.size() < kMaxRecords) records_.push_back(std::move(record));
}

void Profiler::AddKernel(const std::string& recipe, const KernelLaunch& kernel, uint64_t start_ns,
                         uint64_t end_ns) {
  Add({.name = kernel.name,
       .category = EngineName(kernel.engine),
       .start_ns = start_ns,
       .end_ns = end_ns,
       .engine_type = kDeviceProcess,
       .engine_index = static_cast<uint32_t>(kernel.engine),
       .recipe = recipe,
       .args = {{"flops", std::to_string(kernel.flops)}, {"bytes", std::to_string(kernel.bytes)}}});
}

void Profiler::AddHost(std::string name, uint64_t start_ns, uint64_t end_ns,
                       std::vector<std::pair<std::string, std::string>> args,
                       const std::string& thread) {
  if (!thread.empty()) args.emplace_back("thread", thread);
  Add({.name = std::move(name),
       .category = "host",
       .start_ns = start_ns,
       .end_ns = end_ns,
       .engine_type = kHostProcess,
       .engine_index = static_cast<uint32_t>(gettid()),
       .recipe = "",
       .args = std::move(args)});
}

std::vector<TraceRecord> Profiler::Select(synTraceType type) const {
  std::vector<TraceRecord> selected;
  {
    std::lock_guard lock(mutex_);
    std::copy_if(records_.begin(), records_.end(), std::back_inserter(selected),
                 [&](const TraceRecord& record) { return Wanted(type, record); });
  }
  std::stable_sort(selected.begin(), selected.end(),
                   [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
  return selected;
}

void Profiler::Export(synTraceType type, void* buffer, size_t* size, size_t* num_events) const {
  const std::vector<TraceRecord> records = Select(type);
  StringPool pool;
  struct Offsets {
    size_t name, category, recipe;
  };
  std::vector<Offsets> offsets;
  for (const TraceRecord& record : records) {
    offsets.push_back({pool.Add(record.name), pool.Add(record.category), pool.Add(record.recipe)});
  }
  const size_t event_bytes = records.size() * sizeof(synTraceEvent);
  const size_t pool_bytes = (pool.bytes().size() + 7) / 8 * 8;
  *num_events = records.size();
  *size = event_bytes + pool_bytes + 2 * sizeof(size_t);
  if (buffer == nullptr) return;
  auto* bytes = static_cast<char*>(buffer);
  char* strings = bytes + event_bytes;
  std::memcpy(strings, pool.bytes().data(), pool.bytes().size());
  for (size_t i = 0; i < records.size(); ++i) {
    const TraceRecord& record = records[i];
    synTraceEvent event;
    std::memset(&event, 0, sizeof(event));
    event.name = strings + offsets[i].name;
    event.category = strings + offsets[i].category;
    event.type = 'X';
    event.timestamp = static_cast<long double>(record.start_ns) / 1000;
    event.duration = static_cast<long double>(record.end_ns - record.start_ns) / 1000;
    event.engineType = record.engine_type;
    event.engineIndex = record.engine_index;
    event.contextId = i;
    event.arguments.event.operation = strings + offsets[i].name;
    event.arguments.event.recipeName = strings + offsets[i].recipe;
    std::memcpy(bytes + i * sizeof(event), &event, sizeof(event));
  }
  const size_t tail[] = {records.size(), kTraceVersion};
  std::memcpy(strings + pool_bytes, tail, sizeof(tail));
}

absl::Status Profiler::WriteJson(synTraceType type, const std::string& path) const {
  std::ofstream file(path);
  file << "{\"traceEvents\": [\n"
       << "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"args\": {\"name\": "
          "\"host\"}},\n"
       << "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"args\": {\"name\": "
          "\"emulated device (measured on this CPU)\"}}";
  for (const TraceRecord& record : Select(type)) {
    file << ",\n{\"ph\": \"X\", \"name\": " << Quoted(record.name)
         << ", \"cat\": " << Quoted(record.category) << ", \"pid\": " << record.engine_type
         << ", \"tid\": " << record.engine_index << ", \"ts\": " << record.start_ns / 1000 << '.'
         << record.start_ns % 1000 / 100
         << ", \"dur\": " << static_cast<double>(record.end_ns - record.start_ns) / 1000
         << ", \"args\": {";
    const char* separator = "";
    if (!record.recipe.empty()) {
      file << "\"graph name\": " << Quoted(record.recipe);
      separator = ", ";
    }
    for (const auto& [key, value] : record.args) {
      file << separator << Quoted(key) << ": " << Quoted(value);
      separator = ", ";
    }
    file << "}}";
  }
  file << "\n]}\n";
  file.close();
  if (!file) return NotFound("cannot write the trace file ", path);
  return absl::OkStatus();
}

HostInterval::HostInterval(Profiler* profiler, const char* name)
    : profiler_(profiler),
      name_(name),
      start_ns_(profiler->host_tracing() ? NowNanoseconds() : 0) {}

HostInterval::~HostInterval() {
  if (start_ns_ != 0) profiler_->AddHost(name_, start_ns_, NowNanoseconds());
}

}  // namespace hpu::emulator
