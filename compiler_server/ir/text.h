// The text form of the IR, which tests, dumps and bug reports show. Printed text parses back to an
// equal graph.
//
//   graph @mlp(%x: f32[8,64], %w: f32[64,32]{1,64}, %n: scalar) -> f32[8,32] {
//     const %const0 : i64[2] = 0x01000000000000000200000000000000
//     %0 = matmul %x, %w : f32[8,32]
//     %1 = reduce_sum %0 {dims = [1]} : f32[8]
//     %2 = aten "aten.lgamma.default"(%1) : f32[8]
//     mutate %x as f32[8]{64} + 3 = %2
//     return %0
//   }
//
// Strides are printed in braces only where they are not row-major, and boolean attributes only
// where they are true. An absent operand is `none`. An input on the host is followed by `cpu`. The
// items of return are:
//   %v                      a buffer of its own, returned whole
//   %v in T as V + 3        the buffer has layout T (type with strides), returned is view V of it
//   %v buffer 2             a second buffer with the same value (they never share memory)
//   alias %x as V + 3       memory of input %x;  none, int 3, float 0.5, bool true
// Comments run from // to the end of the line. The grammar is in docs/ir.md.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

struct PrintOptions {
  bool sources = false;             // source lines as comments
  int64_t max_constant_bytes = -1;  // larger ones print as `...`, which does not parse; -1 = all
};

std::string Print(const Graph& graph, const PrintOptions& options = {});
// Prints the graph for Graphviz.
std::string PrintDot(const Graph& graph);
// Returns INVALID_ARGUMENT with line and column. The result has been verified.
absl::StatusOr<Graph> Parse(std::string_view text);

}  // namespace hpu::ir
