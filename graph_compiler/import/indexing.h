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

// Loads the element that is `index * stride` elements further, or 0 where the index is outside of
// [0, size), as a card's loads do.
inline E LoadAt(BodyBuilder& body, const Access& access, E index, int64_t stride, int64_t size) {
  const E inside = And(index >= ConstLike(index, 0), index < static_cast<double>(size));
  const E value = body.LoadIndirect(access, index, stride, size);
  return Select(inside, value, ConstLike(value, 0));
}

}  // namespace hpu::graph_compiler
