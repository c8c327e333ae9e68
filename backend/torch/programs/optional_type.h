// Optional types of operators' declarations.
#pragma once

#include <ATen/ATen.h>

namespace hpu::torch_backend {

// Returns T of T?, and any other type as it is.
inline c10::TypePtr WithoutOptional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

}  // namespace hpu::torch_backend
