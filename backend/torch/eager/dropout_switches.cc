#include "backend/torch/eager/dropout_switches.h"

#include <algorithm>

namespace hpu::torch_backend {

std::vector<size_t> DropoutSwitchesOf(const c10::FunctionSchema& schema) {
  std::vector<size_t> positions;
  const auto op_namespace = schema.operator_name().getNamespace();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    const bool is_switch =
        std::any_of(std::begin(kDropoutSwitches), std::end(kDropoutSwitches), [&](const auto& row) {
          const std::string_view wanted = row.op_namespace;
          return (wanted.empty() || op_namespace == wanted) && name == row.argument;
        });
    if (is_switch) positions.push_back(i);
  }
  return positions;
}

bool IsOff(const c10::IValue& value) {
  if (value.isBool()) return !value.toBool();
  return (value.isDouble() && value.toDouble() == 0) || (value.isInt() && value.toInt() == 0);
}

}  // namespace hpu::torch_backend
