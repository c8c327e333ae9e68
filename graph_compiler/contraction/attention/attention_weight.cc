#include "graph_compiler/contraction/attention/attention_weight.h"

#include "graph_compiler/codegen/math.h"

namespace hpu::graph_compiler {

using llvm::Value;

namespace {

constexpr float kLeast = -87.0f;  // its exp is 1.6e-38; the smallest normal number is 1.2e-38
constexpr float kMost = 88.0f;    // its exp is 1.7e38

}  // namespace

Value* EmitWeight(IrEmitter& e, Value* x, int lanes) {
  Value* hidden = e.b.CreateFCmpOLT(x, e.F32Const(kLeast, lanes));
  Value* bounded = e.b.CreateSelect(hidden, e.F32Const(kLeast, lanes), x);
  Value* above = e.b.CreateFCmpOGT(bounded, e.F32Const(kMost, lanes));
  bounded = e.b.CreateSelect(above, e.F32Const(kMost, lanes), bounded);
  return e.b.CreateSelect(hidden, e.Zero(lanes), EmitExpInRange(e.b, e.target(), bounded));
}

}  // namespace hpu::graph_compiler
