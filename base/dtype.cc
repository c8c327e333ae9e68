#include "base/dtype.h"

#include <array>

namespace hpu {
namespace {

enum class Class { kNone, kFloat, kInteger, kBool, kComplex };
struct Row {
  std::string_view name;
  int64_t size;
  Class kind;
};
constexpr std::array<Row, kNumDTypes> kRows = {{
    {"invalid", 0, Class::kNone},
    {"f32", 4, Class::kFloat},
    {"bf16", 2, Class::kFloat},
    {"f16", 2, Class::kFloat},
    {"f64", 8, Class::kFloat},
    {"i8", 1, Class::kInteger},
    {"u8", 1, Class::kInteger},
    {"i16", 2, Class::kInteger},
    {"i32", 4, Class::kInteger},
    {"i64", 8, Class::kInteger},
    {"bool", 1, Class::kBool},
    {"f8e4m3", 1, Class::kFloat},
    {"f8e5m2", 1, Class::kFloat},
    {"c64", 8, Class::kComplex},
    {"c128", 16, Class::kComplex},
    {"u16", 2, Class::kInteger},
    {"u32", 4, Class::kInteger},
    {"u64", 8, Class::kInteger},
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

}  // namespace hpu
