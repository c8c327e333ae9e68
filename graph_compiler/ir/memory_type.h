// Types of elements in memory and of values in registers. A new type needs one row in
// memory_types.inc and its conversion in codegen/convert.cc.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::graph_compiler {

// The type of a value inside a kernel. Narrow floats are widened to f32 on load and rounded to
// nearest even on store; booleans are i8 with 0/1 in memory and kBool in registers.
enum class ScalarType : uint8_t { kF32, kI32, kI64, kBool };

// The type of an element in memory.
enum class MemoryType : uint8_t {
#define HPU_MEMORY_TYPE(symbol, ...) symbol,
#include "graph_compiler/ir/memory_types.inc"
#undef HPU_MEMORY_TYPE
};

int MemoryTypeSize(MemoryType type);
const char* TypeName(MemoryType type);
const char* TypeName(ScalarType type);
ScalarType ComputeType(MemoryType type);
// Returns the memory type in which a kernel keeps a value of this type between its passes without
// loss.
MemoryType KeptType(ScalarType type);
// Returns whether the rounding of a store that is loaded again may be left out.
bool MayStayUnrounded(MemoryType type);
bool IsUnsigned(MemoryType type);
// Returns whether loaded elements are bf16 numbers.
bool HoldsBF16(MemoryType type);
// Returns whether products and convolutions multiply elements of the type.
bool IsFactorType(MemoryType type);

// Returns the element type of a tensor; UNIMPLEMENTED if kernels have none for it.
absl::StatusOr<MemoryType> ToMemoryType(synDataType type);

}  // namespace hpu::graph_compiler
