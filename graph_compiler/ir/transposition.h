// Loop nests that only move elements and exchange two dimensions. A loop that follows one side
// touches a cache line per element of the other, so these are kernels of their own, which move
// blocks (contraction/transpose_copy).
#pragma once

#include <optional>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// The dimensions of the nest: `row` is contiguous in the source, `col` in the target.
struct Transposition {
  size_t row = 0, col = 0;
};

// Returns nullopt if `body` over `domain` is another kind of nest, has elements of other sizes than
// two or four bytes, or is too small to gain.
std::optional<Transposition> FindTransposition(const Body& body, const Shape& domain);

}  // namespace hpu::graph_compiler
