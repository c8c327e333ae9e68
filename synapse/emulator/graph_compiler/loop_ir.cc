#include "synapse/emulator/graph_compiler/loop_ir.h"

namespace hpu::emulator {

int MemoryTypeSize(MemoryType type) {
  switch (type) {
    case MemoryType::kI64:
      return 8;
    case MemoryType::kF32:
    case MemoryType::kI32:
    case MemoryType::kU32:
      return 4;
    case MemoryType::kBF16:
    case MemoryType::kF16:
    case MemoryType::kI16:
    case MemoryType::kU16:
      return 2;
    case MemoryType::kI8:
    case MemoryType::kU8:
    case MemoryType::kBool:
    case MemoryType::kF8E4M3:
    case MemoryType::kF8E5M2:
      return 1;
  }
  return 0;
}

MemoryType KeptType(ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return MemoryType::kF32;
    case ScalarType::kI32:
      return MemoryType::kI32;
    case ScalarType::kI64:
      return MemoryType::kI64;
    case ScalarType::kBool:
      return MemoryType::kBool;
  }
  return MemoryType::kF32;
}

ScalarType ComputeType(MemoryType type) {
  switch (type) {
    case MemoryType::kF32:
    case MemoryType::kBF16:
    case MemoryType::kF16:
    case MemoryType::kF8E4M3:
    case MemoryType::kF8E5M2:
      return ScalarType::kF32;
    case MemoryType::kI8:
    case MemoryType::kU8:
    case MemoryType::kI16:
    case MemoryType::kU16:
    case MemoryType::kI32:
      return ScalarType::kI32;
    case MemoryType::kU32:
    case MemoryType::kI64:
      return ScalarType::kI64;
    case MemoryType::kBool:
      return ScalarType::kBool;
  }
  return ScalarType::kF32;
}

}  // namespace hpu::emulator
