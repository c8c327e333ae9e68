// Converts between the element types of program/program.h and PyTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "base/dtype.h"

namespace hpu::torch_backend {

inline std::optional<c10::ScalarType> ToScalarType(DType dtype) {
  switch (dtype) {
#define HPU_DTYPE(symbol, name, bytes, kind, host, torch_type, ...) \
  case DType::symbol:                                               \
    return c10::ScalarType::torch_type;
#include "base/dtypes.inc"
#undef HPU_DTYPE
    case DType::kInvalid:
      break;
  }
  return std::nullopt;
}

// Returns kInvalid if we have no such DType.
inline DType FromScalarType(c10::ScalarType type) {
  for (int number = 1; number < kNumDTypes; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (ToScalarType(dtype) == type) return dtype;
  }
  return DType::kInvalid;
}

}  // namespace hpu::torch_backend
