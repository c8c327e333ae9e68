#include "base/dtype.h"

#include <array>

namespace hpu {
namespace {

enum class Class { kNone, kFloat, kInteger, kBool, kComplex };
struct Row {
  std::string_view name;
  int64_t size;
  Class kind;
  DType moved;
};
constexpr std::array<Row, kNumDTypes> kRows = {{
    {"invalid", 0, Class::kNone, DType::kInvalid},
#define HPU_DTYPE(symbol, name, bytes, kind, host, torch_type, device, suffix, moved) \
  {name, bytes, Class::kind, DType::moved},
#include "base/dtypes.inc"
#undef HPU_DTYPE
}};

const Row& RowOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return kRows[index < kRows.size() ? index : 0];
}

}  // namespace

std::string_view DTypeName(DType dtype) { return RowOf(dtype).name; }

std::optional<DType> DTypeFromName(std::string_view name) {
  for (size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

int64_t DTypeSize(DType dtype) { return RowOf(dtype).size; }
bool IsFloat(DType dtype) { return RowOf(dtype).kind == Class::kFloat; }
bool IsInteger(DType dtype) { return RowOf(dtype).kind == Class::kInteger; }
bool IsComplex(DType dtype) { return RowOf(dtype).kind == Class::kComplex; }
DType MovedType(DType dtype) { return RowOf(dtype).moved; }

}  // namespace hpu
