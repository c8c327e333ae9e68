// Values as regions of memory, seen through chains of views.
#pragma once

#include <functional>
#include <optional>

#include "compiler_server/ir/graph.h"

namespace hpu::ir {

// The region that a view node (IsView) selects from the region of its operand; `offset`
// counts elements. nullopt if it cannot be addressed by strides (a reshape of permuted memory,
// say).
std::optional<View> ApplyView(const Node& node, View operand);

// A value as a region of the memory of its root, the first value up the chain of views.
struct RootView {
  Value* root = nullptr;
  View view;
};
// nullopt if strides cannot express the chain. `is_view` says which nodes belong to it.
std::optional<RootView> FindRootView(Value* value, const std::function<bool(const Node&)>& is_view);

// Whether a tensor of this type lies in memory as `strides` say; those of dimensions of at most one
// element say nothing.
bool LiesAs(const TensorType& type, const Dims& strides);

}  // namespace hpu::ir
