#include "graph_compiler/codegen/cost.h"

#include "graph_compiler/codegen/math.h"

namespace hpu::graph_compiler {
namespace {

constexpr int kFunctionCost = 12;
constexpr int kDivisionCost = 5;
constexpr int kAccessCost = 2;
constexpr int kDrawCost = 24;

}  // namespace

int ArithmeticCost(const BodyOp& op) {
  switch (op.op) {
    case Opcode::kConstF32:
    case Opcode::kConstInt:
    case Opcode::kLoad:
    case Opcode::kCast:
    case Opcode::kAccumulator:
      return 0;
    case Opcode::kDiv:
    case Opcode::kSqrt:
    case Opcode::kReciprocal:
    case Opcode::kRem:
    case Opcode::kFloorDiv:
    case Opcode::kFloorMod:
      return kDivisionCost;
    case Opcode::kPhiloxUniform:
      return kDrawCost;
    default:
      return IsMathOpcode(op.op) ? kFunctionCost : 1;
  }
}

int ArithmeticCost(const Body& body) {
  int cost = 0;
  for (const BodyOp& op : body.ops) cost += ArithmeticCost(op);
  return cost;
}

int TotalCost(const Body& body) {
  int cost = ArithmeticCost(body) + kAccessCost * static_cast<int>(body.stores.size());
  for (const BodyOp& op : body.ops) cost += op.op == Opcode::kLoad ? kAccessCost : 0;
  return cost;
}

}  // namespace hpu::graph_compiler
