#include "graph_compiler/fusion/round_once.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

// Returns whether the number can be represented in the type.
bool IsNumberOf(MemoryType type, double number) {
  if (type != MemoryType::kBF16) return number == 0;
  const auto f32 = static_cast<float>(number);
  return static_cast<double>(f32) == number && (std::bit_cast<uint32_t>(f32) & 0xFFFF) == 0;
}

// Returns whether the op gives the same result if its arguments are rounded before it or its result
// is rounded after it.
bool CommutesWithRounding(const BodyOp& op) {
  const bool commutes = op.op == Opcode::kMin || op.op == Opcode::kMax || op.op == Opcode::kNeg ||
                        op.op == Opcode::kAbs;
  return commutes && op.type == ScalarType::kF32;
}

bool RoundsTo(const BodyOp& op, MemoryType type) {
  return op.op == Opcode::kRoundTo && op.imm_int == static_cast<int64_t>(type);
}

// By op: the value of the op can be represented in the type.
std::vector<bool> NumbersOf(const Body& body, MemoryType type) {
  std::vector<bool> result;
  for (const BodyOp& op : body.ops) {
    result.push_back(
        (op.op == Opcode::kConstF32 && IsNumberOf(type, op.imm_f32)) ||
        (op.op == Opcode::kLoad && op.access.type == type) || RoundsTo(op, type) ||
        (CommutesWithRounding(op) &&
         std::all_of(op.args.begin(), op.args.end(), [&](uint32_t arg) { return result[arg]; })));
  }
  return result;
}

// By op: every way from the op's value to a store rounds to the type, and every op on the way there
// commutes with rounding.
std::vector<bool> RoundedLater(const Body& body, MemoryType type) {
  const std::vector<bool> numbers = NumbersOf(body, type);
  std::vector<bool> result(body.ops.size(), true);
  const auto needs_rounding = [&](uint32_t value) {
    if (value != kNoValue) result[value] = false;
  };
  for (const Store& store : body.stores) {
    needs_rounding(store.access.indirect_value);
    if (store.access.type != type) needs_rounding(store.value);
  }
  for (size_t i = body.ops.size(); i-- > 0;) {
    const BodyOp& op = body.ops[i];
    if (op.op == Opcode::kLoad) needs_rounding(op.access.indirect_value);
    const bool passes_on = CommutesWithRounding(op) && numbers[i] && result[i];
    if (passes_on || RoundsTo(op, type)) continue;
    for (const uint32_t arg : op.args) needs_rounding(arg);
  }
  return result;
}

void LeaveOut(Body& body, uint32_t rounding) {
  const uint32_t rounded = body.ops[rounding].args[0];
  for (BodyOp& op : body.ops) std::replace(op.args.begin(), op.args.end(), rounding, rounded);
  for (Store& store : body.stores) {
    if (store.value == rounding) store.value = rounded;
  }
}

void RoundOnce(Body& body) {
  std::vector<uint32_t> superfluous;
  for (uint32_t i = 0; i < body.ops.size(); ++i) {
    if (body.ops[i].op != Opcode::kRoundTo) continue;
    const auto type = static_cast<MemoryType>(body.ops[i].imm_int);
    if (RoundedLater(body, type)[i]) superfluous.push_back(i);
  }
  if (superfluous.empty()) return;
  for (const uint32_t rounding : superfluous) LeaveOut(body, rounding);
  SimplifyBody(body);
}

}  // namespace

void RoundOnce(LoopGraph& graph) {
  for (Node& node : graph.nodes) {
    if (node.IsProduct()) RoundOnce(node.body);
  }
}

}  // namespace hpu::graph_compiler
