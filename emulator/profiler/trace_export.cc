#include "emulator/profiler/trace_export.h"

#include <cstdio>
#include <cstring>
#include <fstream>

#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {
namespace {

constexpr size_t kTraceVersion = 1;

size_t RoundUp(size_t bytes) { return (bytes + 7) / 8 * 8; }

// Returns microseconds with all digits.
std::string Microseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned long long>(ns % 1000));
  return text;
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

// Fills the areas of an export one after the other; with a null buffer it only counts.
class EventWriter {
 public:
  EventWriter(const std::vector<TraceRecord>& records, char* buffer)
      : buffer_(buffer), next_event_(0), next_string_(records.size() * sizeof(synTraceEvent)) {
    size_t bytes = next_string_;
    size_t arguments = 0;
    for (const TraceRecord& record : records) {
      bytes += record.name.size() + record.category.size() + record.recipe.size() + 3;
      if (record.type != 'M') arguments += record.arguments.size();
      for (const TraceArgument& argument : record.arguments) {
        bytes += argument.first.size() + 1;
        if (const auto* text = std::get_if<std::string>(&argument.second))
          bytes += text->size() + 1;
      }
    }
    next_argument_ = RoundUp(bytes);
    tail_ = next_argument_ + arguments * sizeof(synTraceEventArg);
  }

  size_t tail() const { return tail_; }

  void Add(const TraceRecord& record) {
    synTraceEvent event;
    std::memset(&event, 0, sizeof(event));
    event.name = Text(record.name);
    event.category = Text(record.category);
    event.type = record.type;
    event.timestamp = static_cast<long double>(record.start_ns) / 1000;
    event.duration = static_cast<long double>(record.end_ns - record.start_ns) / 1000;
    event.engineType = static_cast<uint32_t>(record.process);
    event.engineIndex = record.lane;
    event.contextId = record.id;
    const char* const recipe = Text(record.recipe);
    if (record.type == 'M') {
      event.arguments.metadata.name = AddNames(record);
    } else {
      event.arguments.event.operation = event.name;
      event.arguments.event.recipeName = recipe;
      event.arguments.event.extraArgs = AddArguments(record);
    }
    Put(&next_event_, &event, sizeof(event));
  }

 private:
  void Put(size_t* at, const void* bytes, size_t size) {
    std::memcpy(buffer_ + *at, bytes, size);
    *at += size;
  }
  const char* Text(const std::string& text) {
    const char* const address = buffer_ + next_string_;
    Put(&next_string_, text.c_str(), text.size() + 1);
    return address;
  }
  // Returns the value of the argument "name", the only one of such a record.
  const char* AddNames(const TraceRecord& record) {
    return Text(std::get<std::string>(record.arguments.at(0).second));
  }
  synTraceEventExtraArgs AddArguments(const TraceRecord& record) {
    synTraceEventExtraArgs extra;
    std::memset(&extra, 0, sizeof(extra));
    extra.count = static_cast<uint8_t>(record.arguments.size());
    extra.args = reinterpret_cast<const synTraceEventArg*>(buffer_ + next_argument_);
    for (const auto& [key, value] : record.arguments) {
      synTraceEventArg argument;
      std::memset(&argument, 0, sizeof(argument));
      argument.key = Text(key);
      if (const auto* text = std::get_if<std::string>(&value)) {
        argument.type = SYN_TRACE_ARG_CHAR_PTR;
        argument.value.str = Text(*text);
      } else {
        argument.type = SYN_TRACE_ARG_UINT64;
        argument.value.u64 = std::get<uint64_t>(value);
      }
      Put(&next_argument_, &argument, sizeof(argument));
    }
    return extra;
  }

  char* const buffer_;
  size_t next_event_;
  size_t next_string_;
  size_t next_argument_ = 0;
  size_t tail_ = 0;
};

void WriteArguments(const TraceRecord& record, std::ostream& out) {
  const char* separator = "";
  if (!record.recipe.empty()) {
    out << "\"graph name\": " << Quoted(record.recipe);
    separator = ", ";
  }
  for (const auto& [key, value] : record.arguments) {
    out << separator << Quoted(key) << ": ";
    if (const auto* text = std::get_if<std::string>(&value)) {
      out << Quoted(*text);
    } else {
      out << std::get<uint64_t>(value);
    }
    separator = ", ";
  }
}

void WriteRecord(const TraceRecord& record, std::ostream& out) {
  out << "{\"ph\": \"" << record.type << "\", \"name\": " << Quoted(record.name)
      << ", \"pid\": " << static_cast<uint32_t>(record.process) << ", \"tid\": " << record.lane;
  if (record.type != 'M') {
    out << ", \"cat\": " << Quoted(record.category)
        << ", \"ts\": " << Microseconds(record.start_ns);
  }
  if (record.type == 'X') {
    out << ", \"dur\": " << Microseconds(record.end_ns - record.start_ns);
  } else if (record.type != 'M') {
    out << ", \"id\": " << record.id;
    if (record.type == 'f') out << ", \"bp\": \"e\"";
  }
  out << ", \"args\": {";
  WriteArguments(record, out);
  out << "}}";
}

}  // namespace

void ExportEvents(const std::vector<TraceRecord>& records, void* buffer, size_t* size,
                  size_t* num_events) {
  EventWriter writer(records, static_cast<char*>(buffer));
  const size_t tail[] = {records.size(), kTraceVersion};
  *num_events = records.size();
  *size = writer.tail() + sizeof(tail);
  if (buffer == nullptr) return;
  for (const TraceRecord& record : records) writer.Add(record);
  std::memcpy(static_cast<char*>(buffer) + writer.tail(), tail, sizeof(tail));
}

absl::Status WriteTraceJson(const std::vector<TraceRecord>& records, const std::string& path) {
  std::ofstream file(path);
  file << "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  const char* separator = "\n";
  for (const TraceRecord& record : records) {
    file << separator;
    WriteRecord(record, file);
    separator = ",\n";
  }
  file << "\n]}\n";
  file.close();
  if (!file) return NotFound("cannot write the trace file ", path);
  return absl::OkStatus();
}

}  // namespace hpu::emulator
