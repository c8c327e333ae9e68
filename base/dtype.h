// Element types that cross a border of ours (graph, program, recipe). The numbers are stored on
// disk and on the wire: append only.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hpu {

enum class DType : uint8_t {
  kInvalid = 0,
  kF32 = 1,
  kBF16 = 2,
  kF16 = 3,
  kF64 = 4,
  kI8 = 5,
  kU8 = 6,
  kI16 = 7,
  kI32 = 8,
  kI64 = 9,
  kBool = 10,
  kF8E4M3 = 11,
  kF8E5M2 = 12,
  kC64 = 13,
  kC128 = 14,
  kU16 = 15,
  kU32 = 16,
  kU64 = 17,
};
inline constexpr int kNumDTypes = 18;

// "f32", "bf16", "i64", "bool" ...; "invalid" for anything else.
std::string_view DTypeName(DType dtype);
std::optional<DType> DTypeFromName(std::string_view name);
// Bytes per element; 0 for kInvalid.
int64_t DTypeSize(DType dtype);
bool IsFloat(DType dtype);    // f32 bf16 f16 f64 f8*
bool IsInteger(DType dtype);  // i* and u*; not bool
bool IsComplex(DType dtype);

}  // namespace hpu
