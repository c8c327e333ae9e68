// An argument of an ATen call (or of any op with a PyTorch schema) in a captured graph or in an
// eager step of a program. The owner of the argument defines what the number of a tensor argument
// means.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/status.h"

namespace hpu {

// The limit for a name in our containers: an operator, an argument, a tensor of a recipe, a
// function.
inline constexpr size_t kMaxNameBytes = 256;

struct Argument;
struct NoneArgument {
  bool operator==(const NoneArgument&) const = default;
};
struct TensorArgument {
  uint32_t tensor = 0;
  bool operator==(const TensorArgument&) const = default;
};
struct DTypeArgument {
  DType dtype;
  bool operator==(const DTypeArgument&) const = default;
};
struct EnumArgument {  // torch's MemoryFormat or Layout as text: "contiguous_format", "strided"
  std::string name;
  bool operator==(const EnumArgument&) const = default;
};
struct DeviceArgument {
  std::string name;  // "hpu" or "cpu"
  bool operator==(const DeviceArgument&) const = default;
};
using ArgumentList = std::vector<Argument>;
struct Argument {
  // The order defines the numbers in bytes: append only.
  std::variant<NoneArgument, TensorArgument, int64_t, double, bool, std::string, DTypeArgument,
               EnumArgument, DeviceArgument, ArgumentList>
      value;

  bool operator==(const Argument&) const = default;
};

// A list nests at most this deep inside other lists, so that hostile bytes cannot exhaust the
// stack.
inline constexpr int kMaxArgumentDepth = 4;

// Visits the number of every tensor argument, including those in lists; `visit` may change it.
template <typename Visit>
void ForEachTensor(Argument& argument, const Visit& visit) {
  if (auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
    visit(tensor->tensor);
  } else if (auto* list = std::get_if<ArgumentList>(&argument.value)) {
    for (Argument& item : *list) ForEachTensor(item, visit);
  }
}
template <typename Visit>
void ForEachTensor(const Argument& argument, const Visit& visit) {
  if (const auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
    visit(tensor->tensor);
  } else if (const auto* list = std::get_if<ArgumentList>(&argument.value)) {
    for (const Argument& item : *list) ForEachTensor(item, visit);
  }
}

// Returns DATA_LOSS, naming `what`, if a tensor argument is not below `tensors`.
absl::Status CheckArgument(const Argument& argument, size_t tensors, std::string_view what);

void PutArgument(ByteWriter& out, const Argument& argument);
absl::Status GetArgument(ByteReader& in, Argument* argument);

// Prints the argument as Python writes it, with tensors as "%3": None, True, 0.5, "text", [%1, 2],
// bf16.
void PrintArgument(std::ostream& out, const Argument& argument);

}  // namespace hpu
