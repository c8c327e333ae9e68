// Declares the arithmetic of base/distributions.h as nodes of a graph.
#pragma once

#include "base/distributions.h"
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

struct GraphArithmetic {
  ir::Builder& b;
  Value* Add(Value* x, Value* y) const { return b.Binary(OpKind::kAdd, x, y); }
  Value* Add(Value* x, float y) const { return b.Binary(OpKind::kAdd, x, double{y}); }
  Value* Mul(Value* x, Value* y) const { return b.Binary(OpKind::kMul, x, y); }
  Value* Mul(Value* x, float y) const { return b.Binary(OpKind::kMul, x, double{y}); }
  Value* Div(Value* x, Value* y) const { return b.Binary(OpKind::kDiv, x, y); }
  Value* Sqrt(Value* x) const { return b.Unary(OpKind::kSqrt, x); }
  Value* Floor(Value* x) const { return b.Unary(OpKind::kFloor, x); }
  Value* SelectLess(Value* x, float limit, Value* yes, Value* no) const {
    return b.Emit(OpKind::kWhere, {b.Binary(OpKind::kLt, x, double{limit}), yes, no});
  }
};

}  // namespace hpu::compiler
