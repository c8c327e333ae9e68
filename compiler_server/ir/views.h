// Values as regions of memory, seen through chains of views.
#pragma once

#include <functional>
#include <optional>

#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// The region that a view node (IsView) selects from the region of its operand; `offset` counts
// elements. Returns nullopt if strides cannot address it (for example a reshape of permuted
// memory).
std::optional<View> ApplyView(const Node& node, View operand);

// A value as a region of the memory of its root, which is the first value of the chain of views.
struct RootView {
  Value* root = nullptr;
  View view;
};
// Returns nullopt if strides cannot express the chain. `is_view` decides which nodes belong to it.
std::optional<RootView> FindRootView(Value* value, const std::function<bool(const Node&)>& is_view);

// Whether a tensor of this type has the layout `strides` in memory. The strides of dimensions with
// at most one element do not matter.
bool LiesAs(const TensorType& type, const Dims& strides);

// Returns the permutation that undoes `perm`.
Dims InversePermutation(const Dims& perm);

}  // namespace hpu::ir
