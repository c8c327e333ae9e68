// Positions computed at run time, as gathers and scatters use them.
#pragma once

#include "synapse/emulator/graph_compiler/import/expr.h"
#include "synapse/emulator/graph_compiler/loop_graph.h"

namespace hpu::emulator {

// The view's own elements, over a domain of its shape.
inline Access WholeAccess(const View& view) {
  return {view.value, view.type, view.strides, view.offset};
}

// PyTorch's negative positions count from the end.
inline E WrapNegative(E index, int64_t size) {
  return Select(index < 0.0, index + static_cast<double>(size), index);
}

}  // namespace hpu::emulator
