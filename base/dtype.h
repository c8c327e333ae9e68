// Element types that our own formats use (graph, program, recipe): dtypes.inc lists them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hpu {

enum class DType : uint8_t {
  kInvalid,
#define HPU_DTYPE(symbol, ...) symbol,
#include "base/dtypes.inc"
#undef HPU_DTYPE
};
inline constexpr int kNumDTypes = 1
#define HPU_DTYPE(...) +1
#include "base/dtypes.inc"
#undef HPU_DTYPE
    ;

// Returns "f32", "bf16", "i64", "bool" ..., or "invalid" for anything else.
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// Returns the bytes per element, or 0 for kInvalid.
int64_t DTypeSize(DType dtype);
bool IsFloat(DType dtype);    // f32 bf16 f16 f64 f8*
bool IsInteger(DType dtype);  // i* and u*; not bool
bool IsComplex(DType dtype);
// Returns the type that elements of `dtype` have inside a recipe when they are only moved: their
// own, if the device calculates with it, or an integer of the same size. kInvalid if there is none
// (c128).
DType MovedType(DType dtype);

}  // namespace hpu
