// Element types of program/program.h <-> PyTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "base/dtype.h"

namespace hpu::torch_backend {

inline std::optional<c10::ScalarType> ToScalarType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return c10::ScalarType::Float;
    case DType::kBF16:
      return c10::ScalarType::BFloat16;
    case DType::kF16:
      return c10::ScalarType::Half;
    case DType::kF64:
      return c10::ScalarType::Double;
    case DType::kI8:
      return c10::ScalarType::Char;
    case DType::kU8:
      return c10::ScalarType::Byte;
    case DType::kI16:
      return c10::ScalarType::Short;
    case DType::kI32:
      return c10::ScalarType::Int;
    case DType::kI64:
      return c10::ScalarType::Long;
    case DType::kBool:
      return c10::ScalarType::Bool;
    case DType::kF8E4M3:
      return c10::ScalarType::Float8_e4m3fn;
    case DType::kF8E5M2:
      return c10::ScalarType::Float8_e5m2;
    case DType::kC64:
      return c10::ScalarType::ComplexFloat;
    case DType::kC128:
      return c10::ScalarType::ComplexDouble;
    case DType::kU16:
      return c10::ScalarType::UInt16;
    case DType::kU32:
      return c10::ScalarType::UInt32;
    case DType::kU64:
      return c10::ScalarType::UInt64;
    case DType::kInvalid:
      break;
  }
  return std::nullopt;
}

}  // namespace hpu::torch_backend
