#include "compiler_server/passes/attention/attention_conditions.h"

#include <algorithm>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {

using ir::AttrKey;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

std::optional<double> Uniform(const Value* value) {
  const Node* full = value->producer;
  if (full == nullptr || full->op != OpKind::kFull) return std::nullopt;
  return full->Float(AttrKey::kValue);
}

Value* Unshaped(Value* value) {
  while (const Node* reshape = MadeBy(value, OpKind::kReshape)) value = reshape->operands[0];
  return value;
}

namespace {

// Whether the value is an iota of [n], from 0, in the last dimension (or the one before it) of a
// matrix.
bool IsPlace(Value* value, bool of_rows) {
  const Dims& sizes = value->type.sizes;
  const Node* iota = MadeBy(Unshaped(value), OpKind::kIota);
  if (iota == nullptr || iota->Float(AttrKey::kStart) != 0 || iota->Float(AttrKey::kStep) != 1) {
    return false;
  }
  const size_t back = of_rows ? 2 : 1;
  return sizes.size() >= back && sizes[sizes.size() - back] == value->type.elements();
}

// The node that makes a condition on [.., queries, keys] that is broadcast over neither of the two.
const Node* MakerOf(const Value* condition, std::span<const int64_t> matrix) {
  const Dims& sizes = condition->type.sizes;
  const bool whole = sizes.size() >= 2 && std::equal(sizes.end() - 2, sizes.end(), matrix.begin());
  return whole ? condition->producer : nullptr;
}

}  // namespace

bool IsCausal(Value* condition, std::span<const int64_t> matrix) {
  const Node* node = MakerOf(condition, matrix);
  if (node == nullptr) return false;
  switch (node->op) {
    case OpKind::kReshape:
      return IsCausal(node->operands[0], matrix);
    case OpKind::kWhere:
      return Uniform(node->operands[1]) == 1 && Uniform(node->operands[2]) == 0 &&
             IsCausal(node->operands[0], matrix);
    case OpKind::kLe:
      return IsPlace(node->operands[0], false) && IsPlace(node->operands[1], true);
    case OpKind::kGe:
      return IsPlace(node->operands[0], true) && IsPlace(node->operands[1], false);
    default:
      return false;
  }
}

bool HidesLaterKeys(Value* condition, std::span<const int64_t> matrix) {
  const Node* node = MakerOf(condition, matrix);
  if (node == nullptr) return false;
  switch (node->op) {
    case OpKind::kReshape:
      return HidesLaterKeys(node->operands[0], matrix);
    case OpKind::kWhere:
      return Uniform(node->operands[1]) == 1 && Uniform(node->operands[2]) == 0 &&
             HidesLaterKeys(node->operands[0], matrix);
    case OpKind::kLogicalNot:
      return IsCausal(node->operands[0], matrix);
    case OpKind::kEq:
      return Uniform(node->operands[1]) == 0 && IsCausal(node->operands[0], matrix);
    case OpKind::kGe: {
      const Node* next = MadeBy(node->operands[1], OpKind::kAdd);
      return next != nullptr && IsPlace(node->operands[0], false) &&
             IsPlace(next->operands[0], true) && Uniform(next->operands[1]) == 1;
    }
    case OpKind::kGt:
      return IsPlace(node->operands[0], false) && IsPlace(node->operands[1], true);
    case OpKind::kLt:
      return IsPlace(node->operands[0], true) && IsPlace(node->operands[1], false);
    default:
      return false;
  }
}

}  // namespace hpu::compiler
