#include "graph_compiler/fusion/round_once.h"

#include <algorithm>
#include <bit>

#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

// Whether the number is known to be one of the type.
bool IsNumberOf(MemoryType type, double number) {
  if (type != MemoryType::kBF16) return number == 0;
  const auto f32 = static_cast<float>(number);
  return static_cast<double>(f32) == number && (std::bit_cast<uint32_t>(f32) & 0xFFFF) == 0;
}

class Roundings {
 public:
  explicit Roundings(Body& body) : body_(body) {}

  void LeaveOut() {
    std::vector<uint32_t> superfluous;
    for (uint32_t i = 0; i < body_.ops.size(); ++i) {
      const BodyOp& op = body_.ops[i];
      const bool rounds = op.op == Opcode::kRoundTo;
      if (rounds && IsRoundedLater(i, static_cast<MemoryType>(op.imm_int)))
        superfluous.push_back(i);
    }
    for (const uint32_t i : superfluous) Redirect(i, body_.ops[i].args[0]);
    if (!superfluous.empty()) SimplifyBody(body_);
  }

 private:
  // The value is a number of the type.
  bool IsOf(uint32_t value, MemoryType type) const {
    const BodyOp& op = body_.ops[value];
    switch (op.op) {
      case Opcode::kConstF32:
        return IsNumberOf(type, op.imm_f32);
      case Opcode::kLoad:
        return op.access.type == type;
      case Opcode::kRoundTo:
        return op.imm_int == static_cast<int64_t>(type);
      case Opcode::kMin:
      case Opcode::kMax:
      case Opcode::kNeg:
      case Opcode::kAbs:
        return op.type == ScalarType::kF32 &&
               std::all_of(op.args.begin(), op.args.end(),
                           [&](uint32_t arg) { return IsOf(arg, type); });
      default:
        return false;
    }
  }

  // Every way from the value to a store rounds to the type, and commutes with rounding until then.
  bool IsRoundedLater(uint32_t value, MemoryType type) const {
    for (const Store& store : body_.stores) {
      if (store.access.indirect_value == value) return false;
      if (store.value == value && store.access.type != type) return false;
    }
    for (size_t i = value + 1; i < body_.ops.size(); ++i) {
      const BodyOp& op = body_.ops[i];
      if (op.op == Opcode::kLoad && op.access.indirect_value == value) return false;
      if (std::find(op.args.begin(), op.args.end(), value) == op.args.end()) continue;
      const auto reader = static_cast<uint32_t>(i);
      if (op.op == Opcode::kRoundTo && IsOf(reader, type)) continue;
      const bool commutes = op.op == Opcode::kMin || op.op == Opcode::kMax ||
                            op.op == Opcode::kNeg || op.op == Opcode::kAbs;
      if (!commutes || !IsOf(reader, type) || !IsRoundedLater(reader, type)) return false;
    }
    return true;
  }

  void Redirect(uint32_t from, uint32_t to) {
    for (BodyOp& op : body_.ops) std::replace(op.args.begin(), op.args.end(), from, to);
    for (Store& store : body_.stores) {
      if (store.value == from) store.value = to;
    }
  }

  Body& body_;
};

}  // namespace

void RoundOnce(LoopGraph& graph) {
  for (Node& node : graph.nodes) {
    if (node.IsProduct()) Roundings(node.body).LeaveOut();
  }
}

}  // namespace hpu::graph_compiler
