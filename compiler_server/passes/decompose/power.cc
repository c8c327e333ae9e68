// Rewrites powers. Those of integers are products, and wrap around like PyTorch's.
#include <cmath>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// Returns x to the power of a constant above 0, by squaring.
Value* ConstantPower(Call& call, Value* x, int64_t exponent) {
  Value* power = nullptr;
  for (Value* square = x; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) {
      power = power == nullptr ? square : call.b.Binary(OpKind::kMul, power, square);
    }
    if (exponent > 1) square = call.b.Binary(OpKind::kMul, square, square);
  }
  return power;
}

// pow(x, number)
void PowScalar(Call& call) {
  constexpr double kLargestProduct = 8;
  constexpr double kLargestInteger = 0x1p53;
  Value* x = call.Operand(kSelf, call.dtype());
  const double exponent = call.Stored("exponent", call.dtype());
  // PyTorch's fake result is i64 here, and that of its CPU kernel bool if the exponent is one.
  if (call.Tensor(kSelf)->type.dtype == DType::kBool && (exponent == 0 || exponent == 1)) {
    return call.Refuse("a truth value to the power of one");
  }
  if (exponent == 0) return call.Return(call.b.Full(1, call.dtype(), x->type.sizes));
  if (exponent == 0.5) return call.Return(call.b.Unary(OpKind::kSqrt, x));
  if (exponent == -0.5) return call.Return(call.b.Unary(OpKind::kRsqrt, x));
  if (exponent == -1) return call.Return(call.b.Unary(OpKind::kReciprocal, x));
  const double most = IsFloat(call.dtype()) ? kLargestProduct : kLargestInteger;
  if (exponent > 0 && exponent <= most && exponent == std::floor(exponent)) {
    return call.Return(ConstantPower(call, x, static_cast<int64_t>(exponent)));
  }
  call.Return(call.b.Binary(OpKind::kPow, x, exponent));
}

// Returns the integers x to the powers `exponent`, by squaring. A negative power of 1 and of -1 is
// an integer, and that of any other number is 0, like in PyTorch's kernel.
Expr IntegerPowers(Expr x, Expr exponent) {
  const bool has_sign = exponent.dtype() != DType::kU8;
  const int64_t bits = DTypeSize(exponent.dtype()) * 8 - (has_sign ? 1 : 0);
  const auto is_set = [&](int64_t bit) {
    const Expr shifted = Apply(OpKind::kShiftRight, exponent, static_cast<double>(bit));
    return Apply(OpKind::kBitwiseAnd, shifted, 1.0) == 1.0;
  };
  Expr power = Where(is_set(0), x, 1.0);
  Expr square = x;
  for (int64_t bit = 1; bit < bits; ++bit) {
    square = square * square;
    power = Where(is_set(bit), power * square, power);
  }
  if (!has_sign) return power;
  const Expr is_unit = (x == 1.0) | (x == -1.0);
  return Where((exponent >= 0.0) | is_unit, power, 0.0);
}

// pow(x, tensor), where x is a tensor or a number
void Pow(Call& call) {
  const DType dtype = call.dtype();
  if (IsFloat(dtype)) return RewriteElementwise(call, OpKind::kPow);
  const Expr x{&call, call.Operand(kSelf, dtype)};
  const Expr exponent{&call, call.Operand("exponent", dtype)};
  if (dtype == DType::kBool) return call.Refuse("power of truth values");
  const bool is_two = !call.IsTensor(kSelf) && call.Stored(kSelf, dtype) == 2;
  if (is_two) return Give(call, Apply(OpKind::kShiftLeft, Number(x, 1), exponent));
  Give(call, IntegerPowers(x, exponent));
}

constexpr HandlerRow kPowerRows[] = {
    {"aten.pow.Scalar", Pow},
    {"aten.pow.Tensor_Scalar", PowScalar},
    {"aten.pow.Tensor_Tensor", Pow},
};

}  // namespace

std::span<const HandlerRow> PowerRows() { return kPowerRows; }

}  // namespace hpu::compiler
