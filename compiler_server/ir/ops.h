// What is known about every op, from proto/ops.yaml (generated: ops_generated.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compiler_server/ir/ops_generated.h"  // enum class OpKind, enum class AttrKey, counts

namespace hpu::ir {

enum class OpClass : uint8_t {
  kOpaque,       // aten
  kElementwise,  // operands broadcast against each other
  kReduce,
  kNormalize,
  kContract,
  kMovement,
  kIndex,
  kSource,
  kWindow,
};

enum class AttrType : uint8_t { kInt, kFloat, kBool, kText, kInts };

struct AttrSpec {
  AttrKey key;
  AttrType type;
};

struct OpTraits {
  std::string_view name;
  OpClass op_class;
  int min_operands;
  int max_operands;  // -1 = any number
  int results;
  std::span<const AttrSpec> attrs;
  std::string_view dtypes;  // named set: "float", "int", "bool", "number", "any"
  std::string_view shape;   // named rule, docs/ir.md
  // Base of the Synapse GUID ("relu_fwd"; the lowering appends the type). Empty: no recipe can hold
  // the op, so decompositions must not produce it.
  std::string_view guid;
};

const OpTraits& Traits(OpKind op);
inline std::string_view OpName(OpKind op) { return Traits(op).name; }
std::optional<OpKind> OpFromName(std::string_view name);
std::string_view AttrName(AttrKey key);
std::optional<AttrKey> AttrFromName(std::string_view name);
// The op that a functional pointwise ATen target maps onto one to one ("aten.relu.default").
std::optional<OpKind> OpFromAten(std::string_view target);
bool InDTypeSet(std::string_view set, DType dtype);

}  // namespace hpu::ir
