#include "program/program.h"

namespace hpu {
namespace {

void MarkTensors(const Argument& argument, std::vector<bool>* used) {
  if (const auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
    (*used)[tensor->tensor] = true;
  } else if (const auto* list = std::get_if<ArgumentList>(&argument.value)) {
    for (const Argument& item : *list) MarkTensors(item, used);
  }
}

}  // namespace

std::vector<bool> TensorsInUse(const Program& program) {
  std::vector<bool> used(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step)) {
      for (const Binding& binding : launch->bindings) used[binding.tensor] = true;
      continue;
    }
    const EagerStep& eager = std::get<EagerStep>(step);
    for (const Argument& argument : eager.args) MarkTensors(argument, &used);
    for (const auto& [name, argument] : eager.kwargs) MarkTensors(argument, &used);
  }
  for (const ProgramOutput& output : program.outputs) {
    if (output.kind == ProgramOutput::Kind::kTensor) used[output.index] = true;
  }
  return used;
}

}  // namespace hpu
