// An Expr is arithmetic on values in the notation of formulas, for decompositions that are
// formulas. Operands of types narrower than f32 are widened to f32, because fused kernels round
// once, at the end.
#pragma once

#include <limits>
#include <string_view>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Expr {
  Call* call = nullptr;
  Value* value = nullptr;

  int64_t rank() const { return value->type.rank(); }
  const Dims& sizes() const { return value->type.sizes; }
  DType dtype() const { return value->type.dtype; }
};

inline Expr Apply(OpKind op, Expr x) { return {x.call, x.call->b.Unary(op, x.value)}; }
inline Expr Apply(OpKind op, Expr x, Expr y) {
  return {x.call, x.call->b.Binary(op, x.value, y.value)};
}
inline Expr Apply(OpKind op, Expr x, double y) {
  return {x.call, x.call->b.Binary(op, x.value, y)};
}
// Returns 0, 1, 2, ... as a row of `count` elements.
inline Expr Positions(Call& call, int64_t count, DType dtype) {
  return {&call, call.b.Iota(0, 1, dtype, count)};
}
inline Expr Number(Expr like, double value) {
  return {like.call, like.call->b.Scalar(value, like.dtype())};
}

#define HPU_EXPR_OPERATOR(symbol, op)                                       \
  inline Expr operator symbol(Expr x, Expr y) { return Apply(op, x, y); }   \
  inline Expr operator symbol(Expr x, double y) { return Apply(op, x, y); } \
  inline Expr operator symbol(double x, Expr y) { return Apply(op, Number(y, x), y); }
HPU_EXPR_OPERATOR(+, OpKind::kAdd)
HPU_EXPR_OPERATOR(-, OpKind::kSub)
HPU_EXPR_OPERATOR(*, OpKind::kMul)
HPU_EXPR_OPERATOR(/, OpKind::kDiv)
HPU_EXPR_OPERATOR(<, OpKind::kLt)
HPU_EXPR_OPERATOR(<=, OpKind::kLe)
HPU_EXPR_OPERATOR(>, OpKind::kGt)
HPU_EXPR_OPERATOR(>=, OpKind::kGe)
HPU_EXPR_OPERATOR(==, OpKind::kEq)
HPU_EXPR_OPERATOR(&, OpKind::kLogicalAnd)  // for conditions
HPU_EXPR_OPERATOR(|, OpKind::kLogicalOr)
#undef HPU_EXPR_OPERATOR
inline Expr operator-(Expr x) { return Apply(OpKind::kNeg, x); }
inline Expr Exp(Expr x) { return Apply(OpKind::kExp, x); }
inline Expr Log(Expr x) { return Apply(OpKind::kLog, x); }
inline Expr Abs(Expr x) { return Apply(OpKind::kAbs, x); }
inline Expr Tanh(Expr x) { return Apply(OpKind::kTanh, x); }
inline Expr Rsqrt(Expr x) { return Apply(OpKind::kRsqrt, x); }
inline Expr Sigmoid(Expr x) { return Apply(OpKind::kSigmoid, x); }
inline Expr Max(Expr x, double y) { return Apply(OpKind::kMax, x, y); }
inline Expr Min(Expr x, double y) { return Apply(OpKind::kMin, x, y); }

inline Expr Where(Expr condition, Expr x, Expr y) {
  return {x.call, x.call->b.Emit(OpKind::kWhere, {condition.value, x.value, y.value})};
}
inline Expr Where(Expr condition, Expr x, double y) { return Where(condition, x, Number(x, y)); }
inline Expr Where(Expr condition, double x, Expr y) { return Where(condition, Number(y, x), y); }

inline Expr Cast(Expr x, DType dtype) { return {x.call, x.call->b.Cast(x.value, dtype)}; }
inline Expr Reshape(Expr x, Dims sizes) {
  return {x.call, x.call->b.Reshape(x.value, std::move(sizes))};
}
inline Expr Expand(Expr x, Dims sizes) {
  return {x.call, x.call->b.Expand(x.value, std::move(sizes))};
}
inline Expr Slice(Expr x, int64_t dim, int64_t start, int64_t limit, int64_t step = 1) {
  return {x.call, x.call->b.Slice(x.value, dim, start, limit, step)};
}
// Without dims there is nothing to sum, and x is the result.
inline Expr Sum(Expr x, const Dims& dims, bool keepdim = true) {
  return dims.empty() ? x
                      : Expr{x.call, x.call->b.Reduce(OpKind::kReduceSum, x.value, dims, keepdim)};
}
inline Expr Mean(Expr x, const Dims& dims, bool keepdim = true) {
  return dims.empty() ? x
                      : Expr{x.call, x.call->b.Reduce(OpKind::kReduceMean, x.value, dims, keepdim)};
}

// Returns log(exp(x) + exp(y)).
inline Expr LogOfSum(Expr x, Expr y) {
  // The gap between equal infinities is 0, but their difference would be NaN.
  const Expr gap = Where(x == y, 0.0, Abs(x - y));
  return Apply(OpKind::kMax, x, y) + Apply(OpKind::kLog1p, Exp(-gap));
}

inline DType Widened(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }
// Returns the type that formulas of several steps are calculated in, so that a narrow result is
// rounded only once. Integer types stay the same.
inline DType WidenedFloat(DType dtype) { return IsFloat(dtype) ? Widened(dtype) : dtype; }
inline Expr Wide(Call& call, Value* value) {
  return {&call, call.b.Cast(value, WidenedFloat(value->type.dtype))};
}
// Returns an argument in the type that the result's formula is calculated in.
inline Expr Wide(Call& call, std::string_view name) {
  return {&call, call.Operand(name, WidenedFloat(call.dtype()))};
}
// Returns a value in the type that formulas are calculated in.
inline Expr In(Call& call, Value* value) {
  return {&call, call.b.Cast(value, Widened(value->type.dtype))};
}
// Returns an argument, which is a tensor, or a number as a 0-d value.
inline Expr In(Call& call, std::string_view name) {
  if (call.IsTensor(name)) return In(call, call.Tensor(name));
  return {&call, call.b.Scalar(call.Float(name), DType::kF32)};
}
// Returns an argument as a condition.
inline Expr Truth(Call& call, std::string_view name) {
  return {&call, call.b.Cast(call.Tensor(name), DType::kBool)};
}

// Returns result `index` in its declared type; nullptr stays nullptr.
inline Value* Declared(Call& call, size_t index, Expr x) {
  return x.value == nullptr ? nullptr : call.b.Cast(x.value, call.type(index).dtype);
}
inline void Give(Call& call, const std::vector<Expr>& results) {
  std::vector<Value*> values;
  for (size_t i = 0; i < results.size(); ++i) {
    values.push_back(Declared(call, i, results[i]));
  }
  call.Return(std::move(values));
}
inline void Give(Call& call, Expr result) { Give(call, std::vector<Expr>{result}); }

}  // namespace hpu::compiler
