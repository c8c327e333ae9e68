// Ops by the names of PyTorch's schemas.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hpu {

// `target` is "aten.addmm.default" (namespace, name, overload; as PyTorch prints an OpOverload),
// followed by the names of the arguments in schema order. The namespace says whose op it is:
// PyTorch's, ours, a collective's.
struct OpSchema {
  std::string target;
  std::vector<std::string> arguments;

  bool operator==(const OpSchema&) const = default;
};

// The name in PyTorch's dispatcher: "aten::addmm", and "" for the default overload.
struct OperatorName {
  std::string name;
  std::string overload;
};

// Returns INVALID_ARGUMENT unless the target is namespace.op.overload.
absl::StatusOr<OperatorName> ParseTarget(std::string_view target);

}  // namespace hpu
