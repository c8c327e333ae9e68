#include "graph_compiler/contraction/attention_weight.h"

#include "graph_compiler/codegen/body.h"

namespace hpu::graph_compiler {

using llvm::Value;

namespace {

constexpr float kLeast = -87.0f;  // exp is 1.6e-38, the smallest normal number 1.2e-38

}  // namespace

Value* EmitWeight(IrEmitter& e, const KernelFrame& frame, Value* x, int lanes) {
  Body exp;
  BodyOp given;
  given.op = Opcode::kAccumulator;
  given.type = ScalarType::kF32;
  exp.ops.push_back(given);
  given.op = Opcode::kExp;
  given.args = {0};
  exp.ops.push_back(given);
  BodyPosition position;
  position.index = {e.Int(0)};
  position.lanes = lanes;
  Value* hidden = e.b.CreateFCmpOLT(x, e.F32Const(kLeast, lanes));
  Value* bounded = e.b.CreateSelect(hidden, e.F32Const(kLeast, lanes), x);
  Value* weight = EmitBody(e.b, frame, e.target(), exp, position, {bounded})[1];
  return e.b.CreateSelect(hidden, e.Zero(lanes), weight);
}

}  // namespace hpu::graph_compiler
