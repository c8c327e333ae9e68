// Bodies written as C++ expressions: E is a value of a body under construction.
//
//   BodyBuilder body;
//   E x = body.Load(access);
//   body.Store(x * Sigmoid(x), out);
//
// Operands of mixed compute types are converted to the wider one (bool < i32 < i64 < f32).
#pragma once

#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

inline constexpr ScalarType kF32 = ScalarType::kF32;

class BodyBuilder;

struct E {
  BodyBuilder* body = nullptr;
  uint32_t id = 0;
  ScalarType type() const;
};

// The inputs of an expression.
using Args = std::vector<E>;

class BodyBuilder {
 public:
  E Load(const Access& access);
  // Loads the element that is `index * stride` elements further; the index is clamped into [0,
  // limit).
  E LoadIndirect(Access access, E index, int64_t stride, int64_t limit);
  E Accumulator(int64_t number, ScalarType type);
  E Const(ScalarType type, double value);
  E ConstInt(ScalarType type, int64_t value);
  E Op(Opcode op, ScalarType type, const std::vector<E>& args);
  void Store(E value, const Access& access) { body_.stores.push_back({value.id, access}); }
  ScalarType TypeOf(uint32_t id) const { return body_.ops[id].type; }
  Body Take() { return std::move(body_); }
  Body& body() { return body_; }

 private:
  E Add(BodyOp op);
  Body body_;
};

// The expression of a copy returns its first argument.
inline E FirstArg(BodyBuilder&, const Args& a) { return a[0]; }

E Cast(E x, ScalarType type);
E RoundTo(E x, MemoryType type);  // x is f32; x itself if `type` is f32
E Unary(Opcode op, E x);          // the result has the type of x (f32 for float functions)
E FloatFunction(Opcode op, E x);  // x is converted to f32 first
E Binary(Opcode op, E x, E y);
E Compare(Opcode op, E x, E y);  // kBool
E Select(E condition, E x, E y);
E Fma(E x, E y, E z);

inline E operator+(E x, E y) { return Binary(Opcode::kAdd, x, y); }
inline E operator-(E x, E y) { return Binary(Opcode::kSub, x, y); }
inline E operator*(E x, E y) { return Binary(Opcode::kMul, x, y); }
inline E operator/(E x, E y) { return Binary(Opcode::kDiv, x, y); }
inline E operator-(E x) { return Unary(Opcode::kNeg, x); }
inline E Max(E x, E y) { return Binary(Opcode::kMax, x, y); }
inline E Min(E x, E y) { return Binary(Opcode::kMin, x, y); }
inline E operator<(E x, E y) { return Compare(Opcode::kLt, x, y); }
inline E operator<=(E x, E y) { return Compare(Opcode::kLe, x, y); }
inline E operator>(E x, E y) { return Compare(Opcode::kGt, x, y); }
inline E operator>=(E x, E y) { return Compare(Opcode::kGe, x, y); }
E operator+(E x, double y);
E operator-(E x, double y);
E operator*(E x, double y);
E operator-(double x, E y);
E operator/(double x, E y);
E operator<(E x, double y);
E operator>(E x, double y);
E EqualTo(E x, E y);
E And(E x, E y);
E Or(E x, E y);
E Not(E x);
E Truth(E x);  // x != 0
E ConstLike(E x, double value);
inline E Exp(E x) { return FloatFunction(Opcode::kExp, x); }
inline E Log(E x) { return FloatFunction(Opcode::kLog, x); }
inline E Tanh(E x) { return FloatFunction(Opcode::kTanh, x); }
inline E Erf(E x) { return FloatFunction(Opcode::kErf, x); }
inline E Sigmoid(E x) { return FloatFunction(Opcode::kSigmoid, x); }
// These compute factors of a product that is stored as `product`.
inline E SigmoidFor(MemoryType product, E x) {
  const bool rough = product == MemoryType::kBF16;
  return FloatFunction(rough ? Opcode::kSigmoidBf16 : Opcode::kSigmoid, x);
}
inline E NormalCdfFor(MemoryType product, E x) {
  const bool rough = product == MemoryType::kBF16;
  return FloatFunction(rough ? Opcode::kNormalCdfBf16 : Opcode::kNormalCdf, x);
}
inline E Rsqrt(E x) { return FloatFunction(Opcode::kRsqrt, x); }
inline E Sqrt(E x) { return FloatFunction(Opcode::kSqrt, x); }

}  // namespace hpu::graph_compiler
