#include "compiler_server/passes/attention/match_state.h"

#include <algorithm>
#include <cmath>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/attention_conditions.h"

namespace hpu::compiler {
namespace {

using ir::Node;
using ir::OpKind;
using ir::Value;

bool IsFloatCast(const Node& node) {
  return node.op == OpKind::kCast && IsFloat(node.type().dtype) &&
         IsFloat(node.operands[0]->type.dtype);
}

// Whether the node keeps the same elements in the same order.
bool KeepsOrder(const Node& node) { return node.op == OpKind::kReshape || IsFloatCast(node); }

}  // namespace

Value* Core(Value* value) {
  while (value->producer != nullptr && KeepsOrder(*value->producer)) {
    value = value->producer->operands[0];
  }
  return value;
}

bool AreEqual(double x, double y) { return std::fabs(x - y) <= 1e-5 * std::fabs(y); }

std::vector<Node*> MatchState::ReadersOf(const Value* value) const {
  std::vector<Node*> all;
  for (Node* reader : readers.Of(value)) {
    if (!KeepsOrder(*reader)) {
      all.push_back(reader);
      continue;
    }
    const std::vector<Node*> inner = ReadersOf(reader->result());
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

bool MatchState::Leaves(const Value* value) const {
  const std::vector<Node*>& own = readers.Of(value);
  return readers.LeavesGraph(value) || std::any_of(own.begin(), own.end(), [&](const Node* reader) {
           return KeepsOrder(*reader) && Leaves(reader->result());
         });
}

// Matches the factor of dropout: 1 or `scale` where a number is below `keep`, else 0.
bool MatchState::MatchNoise(Value* noise, Value** mask, double* factor) const {
  const Node* node = Core(noise)->producer;
  if (node == nullptr) return false;
  Value* condition = node->operands.empty() ? nullptr : node->operands[0];
  if (node->op == OpKind::kWhere && Uniform(node->operands[2]) == 0) {
    const auto scale = Uniform(node->operands[1]);
    if (!scale) return false;
    *factor *= *scale;
  } else if (node->op != OpKind::kCast) {
    return false;
  }
  if (*mask != nullptr && *mask != condition) return false;
  if (condition->type.dtype != DType::kBool) return false;
  if (condition->type.elements() != NumElements(found.scores)) return false;
  *mask = condition;
  return true;
}

Value* MatchState::WithoutNoise(Value* value, Value** mask, double* factor) {
  for (value = Core(value); const Node* node = MadeBy(value, OpKind::kMul);) {
    bool matched = false;
    for (size_t i = 0; i < 2 && !matched; ++i) {
      Value* other = node->operands[1 - i];
      if (node->operands[i]->type.elements() != node->type().elements()) continue;
      if (const auto number = Uniform(other)) {
        *factor *= *number;
      } else if (!MatchNoise(other, mask, factor)) {
        continue;
      }
      Take(node);
      value = Core(node->operands[i]);
      matched = true;
    }
    if (!matched) break;
  }
  return value;
}

}  // namespace hpu::compiler
