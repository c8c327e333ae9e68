// Positions computed at run time, as gathers and scatters use them.
#pragma once

#include "graph_compiler/import/expr.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// Returns an access of the view's own elements, over a domain of its shape.
inline Access WholeAccess(const View& view) {
  return {view.value, view.type, view.strides, view.offset};
}

// As in PyTorch, negative positions count from the end.
inline E WrapNegative(E index, int64_t size) {
  return Select(index < 0.0, index + static_cast<double>(size), index);
}

}  // namespace hpu::graph_compiler
