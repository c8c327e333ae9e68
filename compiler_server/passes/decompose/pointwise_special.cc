// Rewrites pointwise calls about signs, NaN and the digits of numbers, and rare ones.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

void Copysign(Call& call) {
  const Expr sign{&call, call.Operand(kOther, call.dtype())};
  const Expr size = Abs({&call, call.Operand(kSelf, call.dtype())});
  // 0 and -0 compare as equal, but their reciprocals do not.
  const Expr negative = (sign < 0.0) | ((sign == 0.0) & (Apply(OpKind::kReciprocal, sign) < 0.0));
  Give(call, Where(negative, -size, size));
}

// fmax and fmin: where one operand is NaN, the result is the other one.
void Extreme(Call& call, OpKind op) {
  const Expr x{&call, call.Operand(kSelf, call.dtype())};
  const Expr y{&call, call.Operand(kOther, call.dtype())};
  if (!IsFloat(call.dtype())) return Give(call, Apply(op, x, y));
  const Expr chosen = Where(Apply(OpKind::kIsnan, y), x, Apply(op, x, y));
  Give(call, Where(Apply(OpKind::kIsnan, x), y, chosen));
}
void Fmax(Call& call) { Extreme(call, OpKind::kMax); }
void Fmin(Call& call) { Extreme(call, OpKind::kMin); }

// x << other and x >> other. PyTorch has no shifts of truth values.
void Shift(Call& call, OpKind op) {
  const DType dtype = call.dtype();
  if (!IsInteger(dtype) || dtype == DType::kBool) return call.Refuse("shift of ", DTypeName(dtype));
  call.Return(call.b.Binary(op, call.Operand(kSelf, dtype), call.Operand(kOther, dtype)));
}
void ShiftLeft(Call& call) { Shift(call, OpKind::kShiftLeft); }
void ShiftRight(Call& call) { Shift(call, OpKind::kShiftRight); }

// round(x, decimals): each step is calculated in the type of x, like in PyTorch's kernel.
void RoundDecimals(Call& call) {
  const Expr x{&call, call.Tensor(kSelf)};
  const int64_t decimals = call.Int("decimals");
  const double ten = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  if (!IsFloat(x.dtype()) || !std::isfinite(ten)) {
    return call.Refuse("rounding to ", decimals, " decimals of ", ToText(x.value->type));
  }
  const auto rounded = [](Expr y) { return Apply(OpKind::kRound, y); };
  if (decimals == 0) return Give(call, rounded(x));
  Give(call, decimals > 0 ? rounded(x * ten) / ten : rounded(x / ten) * ten);
}

constexpr double kDegree = 0.017453292519943295769236907684886;
void DegreesToRadians(Call& call) { Give(call, Wide(call, kSelf) * kDegree); }
void RadiansToDegrees(Call& call) { Give(call, Wide(call, kSelf) * (1 / kDegree)); }

// _add_relu(x, y, alpha): max(x + alpha * y, 0)
void AddRelu(Call& call) {
  const double alpha = call.Stored("alpha", call.dtype());
  const Expr y = Wide(call, kOther);
  Give(call, Max(Wide(call, kSelf) + (alpha == 1 ? y : y * alpha), 0));
}

// _masked_scale(x, mask, scale): the mask is one of bytes, or of truth values.
void MaskedScale(Call& call) {
  Give(call, Wide(call, kSelf) * Wide(call, "mask") * call.Float("scale"));
}

// Integers are never infinite.
void Equals(Call& call, double value) {
  const Expr x{&call, call.Tensor(kSelf)};
  if (IsFloat(x.dtype())) return Give(call, x == value);
  call.Return(call.b.Full(0, DType::kBool, x.sizes()));
}
void IsNegativeInfinity(Call& call) { Equals(call, -kInfinity); }
void IsPositiveInfinity(Call& call) { Equals(call, kInfinity); }

// The angle of a real number in the complex plane.
void Angle(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr angle = Where(x < 0.0, std::numbers::pi, Number(x, 0));
  Give(call, Where(Apply(OpKind::kIsnan, x), x, angle));
}

// heaviside(x, values): 0 where x is below 0 or NaN, 1 where it is above 0, and `values` where it
// is 0.
void Heaviside(Call& call) {
  const Expr x{&call, call.Operand(kSelf, call.dtype())};
  const Expr values{&call, call.Operand("values", call.dtype())};
  Give(call, Where(x == 0.0, values, Cast(x > 0.0, call.dtype())));
}

// -x log(x) where x is above 0, 0 where it is 0, and -inf where it is below.
void Entropy(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr inside = Where(x == 0.0, 0.0, -(x * Log(x)));
  Give(call, Where(x < 0.0, -kInfinity, inside));
}

// x log1p(y), and 0 where x is 0 and y is not NaN.
void XLog1p(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr y = Wide(call, kOther);
  const Expr product = x * Apply(OpKind::kLog1p, y);
  Give(call, Where((x == 0.0) & (y == y), 0.0, product));
}

// x * 2 ^ other
void LoadExponent(Call& call) {
  Give(call, Wide(call, kSelf) * Apply(OpKind::kExp2, Wide(call, kOther)));
}

// log2(2 ^ x + 2 ^ y)
void LogAddExp2(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr y = Wide(call, kOther);
  // The gap between equal infinities is 0, but their difference would be NaN.
  const Expr gap = Where(x == y, 0.0, Abs(x - y));
  const Expr rest = Apply(OpKind::kLog2, Apply(OpKind::kExp2, -gap) + 1.0);
  Give(call, Apply(OpKind::kMax, x, y) + rest);
}

void NanToNum(Call& call) {
  if (!IsFloat(call.dtype())) return call.Return(call.Tensor(kSelf));
  if (ir::IsFloat8(call.dtype())) return call.Refuse("nan_to_num of ", DTypeName(call.dtype()));
  const Expr x = Wide(call, kSelf);
  // The type's own limits replace infinities.
  const double largest = call.dtype() == DType::kF16    ? 65504
                         : call.dtype() == DType::kBF16 ? 0x1.fep127
                                                        : std::numeric_limits<float>::max();
  Expr y = Where(Apply(OpKind::kIsnan, x), call.Float("nan", 0), x);
  y = Where(x == kInfinity, call.Float("posinf", largest), y);
  Give(call, Where(x == -kInfinity, call.Float("neginf", -largest), y));
}

constexpr HandlerRow kPointwiseSpecialRows[] = {
    {"aten.__lshift__.Scalar", ShiftLeft},
    {"aten.__lshift__.Tensor", ShiftLeft},
    {"aten.__rshift__.Scalar", ShiftRight},
    {"aten.__rshift__.Tensor", ShiftRight},
    {"aten._add_relu.Scalar", AddRelu},
    {"aten._add_relu.Tensor", AddRelu},
    {"aten._masked_scale.default", MaskedScale},
    {"aten.angle.default", Angle},
    {"aten.bitwise_left_shift.Scalar_Tensor", ShiftLeft},
    {"aten.bitwise_left_shift.Tensor", ShiftLeft},
    {"aten.bitwise_left_shift.Tensor_Scalar", ShiftLeft},
    {"aten.bitwise_right_shift.Scalar_Tensor", ShiftRight},
    {"aten.bitwise_right_shift.Tensor", ShiftRight},
    {"aten.bitwise_right_shift.Tensor_Scalar", ShiftRight},
    {"aten.copysign.Tensor", Copysign},
    {"aten.deg2rad.default", DegreesToRadians},
    {"aten.fmax.default", Fmax},
    {"aten.fmin.default", Fmin},
    {"aten.heaviside.default", Heaviside},
    {"aten.isneginf.default", IsNegativeInfinity},
    {"aten.isposinf.default", IsPositiveInfinity},
    {"aten.ldexp.Tensor", LoadExponent},
    {"aten.logaddexp2.default", LogAddExp2},
    {"aten.nan_to_num.default", NanToNum},
    {"aten.rad2deg.default", RadiansToDegrees},
    {"aten.round.decimals", RoundDecimals},
    {"aten.special_entr.default", Entropy},
    {"aten.special_xlog1py.default", XLog1p},
};

}  // namespace

std::span<const HandlerRow> PointwiseSpecialRows() { return kPointwiseSpecialRows; }

}  // namespace hpu::compiler
