// Captured graph (proto/graph.proto) -> IR. Every captured call becomes an `aten` node with all its
// arguments; what they mean is passes/decompose's business. Outputs that share memory in PyTorch
// share a storage or alias their input, and `copy_` onto inputs becomes mutations.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::wire {
class Graph;
}

namespace hpu::ir {

struct ImportLimits {
  size_t max_nodes = 200'000;
  size_t max_values = 1'000'000;
  size_t max_constant_bytes = size_t{256} << 20;
};

// The bytes come from another process: everything is checked. INVALID_ARGUMENT names the node and
// its source line; RESOURCE_EXHAUSTED names the limit; UNIMPLEMENTED says what no program can
// express.
absl::StatusOr<Graph> Import(const wire::Graph& graph, const ImportLimits& limits = {});

}  // namespace hpu::ir
