// One entry of an exported trace, in the terms of the Trace Event Format.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hpu::emulator {

// The processes of a trace. Their lanes are host threads by number, engines (three per stream), and
// streams by number.
enum class TraceProcess : uint32_t { kHost = 0, kEngines = 1, kStreams = 2 };

using TraceArgument = std::pair<std::string, std::variant<uint64_t, std::string>>;

struct TraceRecord {
  // 'X' is an interval; 's' and 'f' are the ends of an arrow from the host call that queued work to
  // the work; 'M' names a process or a lane (in the argument "name").
  char type = 'X';
  std::string name;
  std::string category;  // "host", "mme", "tpc", "dma", "launch", "copy", "flow"
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  TraceProcess process = TraceProcess::kHost;
  uint32_t lane = 0;
  uint64_t id = 0;     // 's' and 'f': the same for both ends
  std::string recipe;  // of launches and kernels
  std::vector<TraceArgument> arguments;
};

}  // namespace hpu::emulator
