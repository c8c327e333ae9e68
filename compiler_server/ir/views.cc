#include "compiler_server/ir/views.h"

namespace hpu::ir {

std::optional<View> ApplyView(const Node& node, View view) {
  TensorType& type = view.type;
  const Dims& sizes = node.type().sizes;
  switch (node.op) {
    case OpKind::kPermute: {
      Dims strides;
      for (int64_t p : node.Ints(AttrKey::kPerm)) strides.push_back(type.strides[p]);
      type.strides = std::move(strides);
      break;
    }
    case OpKind::kSlice: {
      const Dims& starts = node.Ints(AttrKey::kStarts);
      const Dims& steps = node.Ints(AttrKey::kSteps);
      for (size_t d = 0; d < sizes.size(); ++d) {
        view.offset += starts[d] * type.strides[d];
        type.strides[d] *= steps[d];
      }
      break;
    }
    case OpKind::kExpand: {
      type.strides = BroadcastStrides(type.sizes, type.strides, sizes);
      break;
    }
    case OpKind::kReshape: {
      std::optional<Dims> strides = ReshapeStrides(type.sizes, type.strides, sizes);
      if (!strides.has_value()) return std::nullopt;
      type.strides = *std::move(strides);
      break;
    }
    case OpKind::kAsStrided:
      // The op addresses memory in which the operand has the layout of its type, so the region must
      // have the same layout.
      if (type.strides != node.operands[0]->type.strides) return std::nullopt;
      type.strides = node.Ints(AttrKey::kStrides);
      view.offset += node.Int(AttrKey::kOffset);
      break;
    default:
      return std::nullopt;
  }
  type.sizes = sizes;
  return view;
}

std::optional<RootView> FindRootView(Value* value,
                                     const std::function<bool(const Node&)>& is_view) {
  std::vector<const Node*> chain;
  while (value->kind == ValueKind::kResult && is_view(*value->producer)) {
    chain.push_back(value->producer);
    value = value->producer->operands[0];
  }
  std::optional<View> view = View{value->type, 0};
  for (auto node = chain.rbegin(); node != chain.rend() && view.has_value(); ++node) {
    view = ApplyView(**node, *std::move(view));
  }
  if (!view.has_value()) return std::nullopt;
  return RootView{value, *std::move(view)};
}

bool LiesAs(const TensorType& type, const Dims& strides) {
  if (type.elements() == 0) return true;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    if (type.sizes[i] > 1 && type.strides[i] != strides[i]) return false;
  }
  return true;
}

Dims InversePermutation(const Dims& perm) {
  Dims inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

}  // namespace hpu::ir
