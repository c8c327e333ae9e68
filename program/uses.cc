#include "program/program.h"

namespace hpu {

std::vector<bool> TensorsInUse(const ProgramFunction& function) {
  std::vector<bool> used(function.tensors.size(), false);
  for (const Step& step : function.steps) {
    ForEachTensorNeeded(step, [&](uint32_t tensor) { used[tensor] = true; });
  }
  for (const ProgramOutput& output : function.outputs) {
    if (output.kind == ProgramOutput::Kind::kTensor) used[output.index] = true;
  }
  return used;
}

}  // namespace hpu
