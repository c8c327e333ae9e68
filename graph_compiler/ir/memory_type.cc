#include "graph_compiler/ir/memory_type.h"

#include <algorithm>
#include <iterator>

namespace hpu::graph_compiler {
namespace {

struct Row {
  MemoryType type;
  const char* name;
  int size;  // in bytes
  ScalarType compute;
  bool factor;
  bool may_stay_unrounded;
  bool is_unsigned;
  uint32_t tensors;  // the bits of synDataType that mean it
};

constexpr Row kRows[] = {
#define HPU_MEMORY_TYPE(symbol, name, bytes, compute, factor, unrounded, is_unsigned, tensors) \
  {MemoryType::symbol, name, bytes, ScalarType::compute, factor, unrounded, is_unsigned, tensors},
#include "graph_compiler/ir/memory_types.inc"
#undef HPU_MEMORY_TYPE
};

const Row& RowOf(MemoryType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

int MemoryTypeSize(MemoryType type) { return RowOf(type).size; }

const char* TypeName(MemoryType type) { return RowOf(type).name; }

ScalarType ComputeType(MemoryType type) { return RowOf(type).compute; }

bool MayStayUnrounded(MemoryType type) { return RowOf(type).may_stay_unrounded; }

bool IsUnsigned(MemoryType type) { return RowOf(type).is_unsigned; }

bool IsFactorType(MemoryType type) { return RowOf(type).factor; }

bool HoldsBF16(MemoryType type) {
  return type == MemoryType::kBF16 || type == MemoryType::kF32ToBF16;
}

const char* TypeName(ScalarType type) { return TypeName(KeptType(type)); }

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

absl::StatusOr<MemoryType> ToMemoryType(synDataType type) {
  const auto bits = static_cast<uint32_t>(type);
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) {
    return bits != 0 && (r.tensors & bits) == bits;
  });
  if (row == std::end(kRows)) return Unimplemented("no kernel for elements of data type ", bits);
  return row->type;
}

}  // namespace hpu::graph_compiler
