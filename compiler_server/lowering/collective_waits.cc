#include "compiler_server/lowering/collective_waits.h"

#include <map>
#include <set>
#include <utility>

namespace hpu::compiler {
namespace {

// A memory that tensors lie in. Tensors of one memory count as overlapping.
using MemoryKey = std::pair<Placement, uint32_t>;

MemoryKey MemoryOf(const ProgramFunction& function, uint32_t tensor) {
  const ProgramTensor& entry = function.tensors[tensor];
  return {entry.placement, entry.placement == Placement::kEager ? tensor : entry.index};
}

struct InFlight {
  std::set<MemoryKey> read;
  std::set<MemoryKey> written;
};

// An eager step may write its arguments.
bool Conflicts(const ProgramFunction& function, const Step& step, const InFlight& collective) {
  bool conflicts = false;
  const bool writes_arguments = std::holds_alternative<EagerStep>(step);
  ForEachTensorNeeded(step, [&](uint32_t tensor) {
    const MemoryKey memory = MemoryOf(function, tensor);
    conflicts |= collective.written.contains(memory);
    conflicts |= writes_arguments && collective.read.contains(memory);
  });
  ForEachTensorWritten(step, [&](uint32_t tensor) {
    conflicts |= collective.read.contains(MemoryOf(function, tensor));
  });
  return conflicts;
}

}  // namespace

std::vector<uint32_t> PlaceCollectiveWaits(ProgramFunction* function) {
  std::vector<uint32_t> new_number;
  std::vector<Step> steps;
  std::map<uint32_t, InFlight> in_flight;  // by the new number of the collective
  for (Step& step : function->steps) {
    for (auto each = in_flight.begin(); each != in_flight.end();) {
      if (!Conflicts(*function, step, each->second)) {
        ++each;
        continue;
      }
      steps.emplace_back(WaitStep{each->first});
      each = in_flight.erase(each);
    }
    const auto number = static_cast<uint32_t>(steps.size());
    new_number.push_back(number);
    if (const auto* collective = std::get_if<CollectiveStep>(&step)) {
      InFlight& started = in_flight[number];
      for (uint32_t t : collective->inputs) started.read.insert(MemoryOf(*function, t));
      for (uint32_t t : collective->outputs) started.written.insert(MemoryOf(*function, t));
    }
    steps.push_back(std::move(step));
  }
  for (const auto& [number, collective] : in_flight) steps.emplace_back(WaitStep{number});
  function->steps = std::move(steps);
  return new_number;
}

}  // namespace hpu::compiler
