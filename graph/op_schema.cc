#include "graph/op_schema.h"

namespace hpu {

absl::StatusOr<OperatorName> ParseTarget(std::string_view target) {
  const size_t first = target.find('.');
  const size_t last = target.rfind('.');
  if (first == std::string_view::npos || first == 0 || last <= first + 1 ||
      last + 1 == target.size()) {
    return InvalidArgument("target \"", target.substr(0, 256),
                           "\" is not of the form namespace.op.overload");
  }
  OperatorName name;
  name.name.append(target.substr(0, first)).append("::");
  name.name.append(target.substr(first + 1, last - first - 1));
  name.overload = target.substr(last + 1);
  if (name.overload == "default") name.overload.clear();
  return name;
}

}  // namespace hpu
