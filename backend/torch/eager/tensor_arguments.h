// Visits the tensors among the arguments of a boxed call.
#pragma once

#include <ATen/ATen.h>

namespace hpu::torch_backend {

// Calls `visit` with each defined tensor in an argument, including those in lists.
template <typename Visit>
void ForEachTensor(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
    }
  }
}

}  // namespace hpu::torch_backend
