// What is known about every op. The rows come from proto/ops.yaml by way of proto/gen_ops.py.
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
  int min_operands;  // those that must be present; optional ones follow
  int max_operands;  // -1 = any number
  int results;
  std::span<const AttrSpec> attrs;  // all required, sorted by name
  DTypeSet dtypes;
  ResultType result_type;
  ShapeRule shape;
  // Base of the Synapse node name ("relu_fwd"; the lowering appends the type). Empty: no recipe can
  // hold the op, and decompositions do not produce it.
  std::string_view guid;
};

const OpTraits& Traits(OpKind op);
inline std::string_view OpName(OpKind op) { return Traits(op).name; }
inline bool IsElementwise(OpKind op) { return Traits(op).op_class == OpClass::kElementwise; }
// Operand 1 holds positions, whatever types the others have.
inline bool TakesIndex(OpKind op) {
  return Traits(op).op_class == OpClass::kIndex || op == OpKind::kMaxPoolGradient;
}
// Whether a number beside values of bf16 or f16 keeps the precision of f32. PyTorch does so in the
// four basic operations; comparisons, choices, powers and remainders take the number rounded.
inline bool KeepsNumbers(OpKind op) {
  return op == OpKind::kAdd || op == OpKind::kSub || op == OpKind::kMul || op == OpKind::kDiv ||
         op == OpKind::kFloorDiv;
}
std::optional<OpKind> OpFromName(std::string_view name);
std::string_view AttrName(AttrKey key);
std::optional<AttrKey> AttrFromName(std::string_view name);
// The elementwise op that an ATen target maps onto one to one ("aten.relu.default").
std::optional<OpKind> ElementwiseFromAten(std::string_view target);
bool Contains(DTypeSet set, DType dtype);
// Types that recipes can hold.
bool DeviceHolds(DType dtype);

}  // namespace hpu::ir
