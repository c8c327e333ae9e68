// Converts a captured graph (graph/captured_graph.h) to IR. Every captured call becomes an `aten`
// node with all its arguments; passes/decompose interprets them. Outputs that share memory in
// PyTorch share a storage or alias their input, and `copy_` onto inputs becomes mutations.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "graph/captured_graph.h"

namespace hpu::ir {

struct ImportLimits {
  size_t max_calls = 200'000;
  size_t max_values = 1'000'000;
  size_t max_constant_bytes = size_t{256} << 20;
};

// `graph` must be valid (DecodeGraph). Returns INVALID_ARGUMENT with the call and its source line,
// RESOURCE_EXHAUSTED with the limit, and UNIMPLEMENTED with what no program can express.
absl::StatusOr<Graph> Import(const CapturedGraph& graph, const ImportLimits& limits = {});

}  // namespace hpu::ir
