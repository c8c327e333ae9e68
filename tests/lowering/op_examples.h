// The examples of proto/ops.yaml: programs in text IR that contain each op.
#pragma once

#include <string>

namespace hpu::testing {

// The body of a graph in which T stands for each of the element types. `%x` and `%y` are T[4,6],
// `%s` is T[6], `%i` i64[4,6] and `%b` bool[4,6]; the body defines %r.
struct OpExample {
  const char* name;
  const char* types;  // separated by spaces
  const char* body;
};

inline constexpr OpExample kOpExamples[] = {
#include "compiler_server/ir/op_examples.inc"
};

inline std::string ExampleText(const OpExample& example, const std::string& type) {
  std::string text =
      "graph @g(%x: T[4,6], %y: T[4,6], %s: T[6], %i: i64[4,6], %b: bool[4,6]) {\n " +
      std::string(example.body) + "\n return %r\n}\n";
  for (size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at)) {
    text.replace(at, 1, type);
    at += type.size();
  }
  return text;
}

}  // namespace hpu::testing
