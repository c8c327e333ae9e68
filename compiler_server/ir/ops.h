// The properties of every op. proto/gen_ops.py generates the rows from proto/ops.yaml.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "compiler_server/ir/ops_generated.h"  // OpKind, OpClass, AttrKey, ShapeRule ...

namespace hpu::ir {

enum class AttrType : uint8_t { kInt, kFloat, kBool, kText, kInts };

struct AttrSpec {
  AttrKey key;
  AttrType type;
};

struct OpTraits {
  std::string_view name;
  OpClass op_class;
  int min_operands;                 // those that must be present; optional ones follow
  int max_operands;                 // -1 = any number
  int results;                      // -1 = any number
  std::span<const AttrSpec> attrs;  // all required, sorted by name
  DTypeSet dtypes;
  ResultType result_type;
  ShapeRule shape;
  // Base of the Synapse node name ("relu_fwd"; the lowering appends the type). If it is empty, no
  // recipe can hold the op, and decompositions do not produce it.
  std::string_view guid;
  uint32_t flags;  // bit k: the OpFlag k
};

const OpTraits& Traits(OpKind op);
inline std::string_view OpName(OpKind op) { return Traits(op).name; }
inline bool IsElementwise(OpKind op) { return Traits(op).op_class == OpClass::kElementwise; }
inline bool Has(OpKind op, OpFlag flag) {
  return ((Traits(op).flags >> static_cast<uint32_t>(flag)) & 1) != 0;
}
std::optional<OpKind> OpFromName(std::string_view name);
std::string_view AttrName(AttrKey key);
std::optional<AttrKey> AttrFromName(std::string_view name);
// The elementwise op that an ATen target maps to one to one ("aten.relu.default").
std::optional<OpKind> ElementwiseFromAten(std::string_view target);
bool Contains(DTypeSet set, DType dtype);
// Whether recipes can hold values of this type.
bool DeviceHolds(DType dtype);

}  // namespace hpu::ir
