#include "graph_compiler/import/expr.h"

#include <algorithm>

namespace hpu::graph_compiler {
namespace {

int Width(ScalarType type) {
  switch (type) {
    case ScalarType::kBool:
      return 0;
    case ScalarType::kI32:
      return 1;
    case ScalarType::kI64:
      return 2;
    case ScalarType::kF32:
      return 3;
  }
  return 0;
}

ScalarType Wider(ScalarType x, ScalarType y) { return Width(x) >= Width(y) ? x : y; }

// Booleans take part in arithmetic as integers.
ScalarType ArithmeticType(E x, E y) {
  const ScalarType type = Wider(x.type(), y.type());
  return type == ScalarType::kBool ? ScalarType::kI32 : type;
}

}  // namespace

ScalarType E::type() const { return body->TypeOf(id); }

E BodyBuilder::Add(BodyOp op) {
  body_.ops.push_back(std::move(op));
  return {this, static_cast<uint32_t>(body_.ops.size() - 1)};
}

E BodyBuilder::Load(const Access& access) {
  BodyOp op{Opcode::kLoad, ComputeType(access.type), {}, 0, 0, access};
  return Add(std::move(op));
}

E BodyBuilder::LoadIndirect(Access access, E index, int64_t stride, int64_t limit) {
  access.indirect_value = index.id;
  access.indirect_stride = stride;
  access.indirect_limit = std::max<int64_t>(limit, 1);
  BodyOp op{Opcode::kLoad, ComputeType(access.type), {}, 0, 0, access};
  return Add(std::move(op));
}

E BodyBuilder::Accumulator(int64_t number, ScalarType type) {
  return Add(BodyOp{Opcode::kAccumulator, type, {}, 0, number, {}});
}

E BodyBuilder::Const(ScalarType type, double value) {
  if (type != ScalarType::kF32) return ConstInt(type, static_cast<int64_t>(value));
  return Add(BodyOp{Opcode::kConstF32, type, {}, value, 0, {}});
}

E BodyBuilder::ConstInt(ScalarType type, int64_t value) {
  if (type == ScalarType::kF32) return Const(type, static_cast<double>(value));
  return Add(BodyOp{Opcode::kConstInt, type, {}, 0, value, {}});
}

E BodyBuilder::Op(Opcode op, ScalarType type, const std::vector<E>& args) {
  BodyOp result{op, type, {}, 0, 0, {}};
  for (const E& arg : args) result.args.push_back(arg.id);
  return Add(std::move(result));
}

E RoundTo(E x, MemoryType type) {
  if (type == MemoryType::kF32) return x;
  const E result = x.body->Op(Opcode::kRoundTo, ScalarType::kF32, {x});
  x.body->body().ops.back().imm_int = static_cast<int64_t>(type);
  return result;
}

E Cast(E x, ScalarType type) { return x.type() == type ? x : x.body->Op(Opcode::kCast, type, {x}); }

E Unary(Opcode op, E x) { return x.body->Op(op, x.type(), {x}); }

E FloatFunction(Opcode op, E x) { return Unary(op, Cast(x, ScalarType::kF32)); }

E Binary(Opcode op, E x, E y) {
  const ScalarType type = ArithmeticType(x, y);
  return x.body->Op(op, type, {Cast(x, type), Cast(y, type)});
}

E Compare(Opcode op, E x, E y) {
  const ScalarType type = Wider(x.type(), y.type());
  return x.body->Op(op, ScalarType::kBool, {Cast(x, type), Cast(y, type)});
}

E Select(E condition, E x, E y) {
  const ScalarType type = Wider(x.type(), y.type());
  return x.body->Op(Opcode::kSelect, type, {Truth(condition), Cast(x, type), Cast(y, type)});
}

E Fma(E x, E y, E z) { return x.body->Op(Opcode::kFma, x.type(), {x, y, z}); }

E ConstLike(E x, double value) { return x.body->Const(x.type(), value); }

E operator+(E x, double y) { return x + ConstLike(x, y); }
E operator-(E x, double y) { return x - ConstLike(x, y); }
E operator*(E x, double y) { return x * ConstLike(x, y); }
E operator-(double x, E y) { return ConstLike(y, x) - y; }
E operator/(double x, E y) { return ConstLike(y, x) / y; }
E operator<(E x, double y) { return x < ConstLike(x, y); }
E operator>(E x, double y) { return x > ConstLike(x, y); }
E EqualTo(E x, E y) { return Compare(Opcode::kEq, x, y); }

E And(E x, E y) { return x.body->Op(Opcode::kAnd, x.type(), {x, Cast(y, x.type())}); }
E Or(E x, E y) { return x.body->Op(Opcode::kOr, x.type(), {x, Cast(y, x.type())}); }
E Not(E x) { return Unary(Opcode::kNot, x); }
E Truth(E x) {
  return x.type() == ScalarType::kBool ? x : Compare(Opcode::kNe, x, ConstLike(x, 0));
}

}  // namespace hpu::graph_compiler
