// Pointwise calls: those that are one op of the table, and those made of several.
#include <array>
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kSelf = "self";
constexpr std::string_view kOther = "other";
constexpr std::string_view kAddAlpha = "alpha";

// c10::promoteTypes for the types we know.
DType Promote(DType a, DType b) {
  if (a == b || b == DType::kInvalid) return a;
  if (a == DType::kInvalid) return b;
  if (IsComplex(a) || IsComplex(b)) return DType::kC64;
  if (IsFloat(a) && IsFloat(b)) {
    if (DTypeSize(a) == DTypeSize(b)) return DType::kF32;
    return DTypeSize(a) > DTypeSize(b) ? a : b;
  }
  if (IsFloat(a) || b == DType::kBool) return a;
  if (IsFloat(b) || a == DType::kBool) return b;
  if (DTypeSize(a) != DTypeSize(b) && b != DType::kU8 && a != DType::kU8) {
    return DTypeSize(a) > DTypeSize(b) ? a : b;
  }
  if (DTypeSize(a) == DTypeSize(b)) return DType::kI16;  // i8 with u8
  return DTypeSize(a) > DTypeSize(b) ? a : b;
}

enum Category { kNone, kBoolean, kIntegral, kReal, kComplexNumber };

Category CategoryOf(DType dtype) {
  if (dtype == DType::kInvalid) return kNone;
  if (IsComplex(dtype)) return kComplexNumber;
  if (IsFloat(dtype)) return kReal;
  return dtype == DType::kBool ? kBoolean : kIntegral;
}

Value* Add(Call& call, Value* x, Value* y, double alpha, OpKind op) {
  if (alpha != 1) y = call.b.Binary(OpKind::kMul, y, alpha);
  return call.b.Binary(op, x, y);
}

void AddOrSub(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* y = call.Operand(kOther, call.dtype());
  const double alpha = call.Float(kAddAlpha);
  if (call.dtype() == DType::kBool) {
    if (op == OpKind::kSub || alpha != 1) return call.Refuse("arithmetic on booleans");
    return call.Return(call.b.Binary(OpKind::kLogicalOr, x, y));
  }
  call.Return(Add(call, x, y, alpha, op));
}
void AddTensor(Call& call) { AddOrSub(call, OpKind::kAdd); }
void SubTensor(Call& call) { AddOrSub(call, OpKind::kSub); }
void Rsub(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* y = call.Operand(kOther, call.dtype());
  call.Return(Add(call, y, x, call.Float(kAddAlpha), OpKind::kSub));
}

// self + value * t1 * t2, self + value * t1 / t2
void AddProduct(Call& call, OpKind op) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* y = call.Operand("tensor1", call.dtype());
  Value* z = call.Operand("tensor2", call.dtype());
  const double value = call.Float("value");
  if (value != 1) y = call.b.Binary(OpKind::kMul, y, value);
  call.Return(call.b.Binary(OpKind::kAdd, x, call.b.Binary(op, y, z)));
}
void Addcmul(Call& call) { AddProduct(call, OpKind::kMul); }
void Addcdiv(Call& call) { AddProduct(call, OpKind::kDiv); }

// fma(a, b, c) = a * b + c, which PyTorch makes of addcmul_ and the like.
void Fma(Call& call) {
  Value* x = call.Operand(call.name(0), call.dtype());
  Value* y = call.Operand(call.name(1), call.dtype());
  Value* product = call.b.Binary(OpKind::kMul, x, y);
  call.Return(call.b.Binary(OpKind::kAdd, product, call.Operand(call.name(2), call.dtype())));
}

// As eager: from the nearer end, so that a weight of 1 gives `end` exactly.
void LerpScalar(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* end = call.Operand("end", call.dtype());
  const double weight = call.Float("weight");
  const bool from_end = std::abs(weight) >= 0.5;
  Value* step = call.b.Binary(OpKind::kMul, call.b.Binary(OpKind::kSub, end, x),
                              from_end ? weight - 1 : weight);
  call.Return(call.b.Binary(OpKind::kAdd, from_end ? end : x, step));
}
void LerpTensor(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* end = call.Operand("end", call.dtype());
  Value* weight = call.Operand("weight", call.dtype());
  Value* from_end = call.b.Binary(OpKind::kGe, call.b.Unary(OpKind::kAbs, weight), 0.5);
  Value* factor =
      call.b.Emit(OpKind::kWhere, {from_end, call.b.Binary(OpKind::kSub, weight, 1), weight});
  Value* base = call.b.Emit(OpKind::kWhere, {from_end, end, x});
  Value* step = call.b.Binary(OpKind::kMul, factor, call.b.Binary(OpKind::kSub, end, x));
  call.Return(call.b.Binary(OpKind::kAdd, base, step));
}

// clamp, clamp_min, clamp_max
void Clamp(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  if (call.Has("min")) x = call.b.Binary(OpKind::kMax, x, call.Operand("min", call.dtype()));
  if (call.Has("max")) x = call.b.Binary(OpKind::kMin, x, call.Operand("max", call.dtype()));
  call.Return(x);
}

void ClampTo(Call& call, double low, double high) {
  Value* x = call.b.Binary(OpKind::kMax, call.Tensor(kSelf), low);
  call.Return(call.b.Binary(OpKind::kMin, x, high));
}
void Hardtanh(Call& call) { ClampTo(call, call.Float("min_val"), call.Float("max_val")); }
void Relu6(Call& call) { ClampTo(call, 0, 6); }

void Gelu(Call& call) {
  const bool tanh = call.Text("approximate") == "tanh";
  call.Return(call.b.Unary(tanh ? OpKind::kGeluTanh : OpKind::kGelu, call.Tensor(kSelf)));
}

Value* EmitElu(Call& call, Value* x, double alpha) {
  return call.b.Emit(OpKind::kElu, {x}, {{AttrKey::kAlpha, alpha}});
}
void Elu(Call& call) {
  if (call.Float("input_scale") != 1) return call.Refuse("elu with input_scale");
  Value* y = EmitElu(call, call.Tensor(kSelf), call.Float("alpha"));
  const double scale = call.Float("scale");
  call.Return(scale == 1 ? y : call.b.Binary(OpKind::kMul, y, scale));
}
void Selu(Call& call) {
  constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  call.Return(call.b.Binary(OpKind::kMul, EmitElu(call, call.Tensor(kSelf), kSeluAlpha), kScale));
}
void Celu(Call& call) {
  const double alpha = call.Float("alpha");
  Value* x = call.Tensor(kSelf);
  if (alpha == 1) return call.Return(EmitElu(call, x, 1));
  Value* y = EmitElu(call, call.b.Binary(OpKind::kDiv, x, alpha), 1);
  // max(x, 0) + min(0, alpha * expm1(x / alpha)): elu(x / alpha) * alpha.
  call.Return(call.b.Binary(OpKind::kMul, y, alpha));
}
void LeakyRelu(Call& call) {
  call.Return(call.b.Emit(OpKind::kLeakyRelu, {call.Tensor(kSelf)},
                          {{AttrKey::kAlpha, call.Float("negative_slope")}}));
}
Value* EmitSoftplus(Call& call, Value* x, double beta, double threshold) {
  return call.b.Emit(OpKind::kSoftplus, {x},
                     {{AttrKey::kBeta, beta}, {AttrKey::kThreshold, threshold}});
}
void Softplus(Call& call) {
  call.Return(EmitSoftplus(call, call.Tensor(kSelf), call.Float("beta"), call.Float("threshold")));
}
void LogSigmoid(Call& call) {
  // -log(1 + exp(-x)); far from 0 softplus(-x) is -x itself.
  Value* negative = call.b.Unary(OpKind::kNeg, call.Tensor(kSelf));
  call.Return(call.b.Unary(OpKind::kNeg, EmitSoftplus(call, negative, 1, 88)));
}
void Threshold(Call& call) {
  Value* x = call.Tensor(kSelf);
  // NaN stays.
  Value* below = call.b.Binary(OpKind::kLe, x, call.Float("threshold"));
  call.Return(
      call.b.Emit(OpKind::kWhere, {below, call.b.Scalar(call.Float("value"), x->type.dtype), x}));
}
void Glu(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  const int64_t size = x->type.sizes[dim];
  Value* gate = call.b.Unary(OpKind::kSigmoid, call.b.Slice(x, dim, size / 2, size));
  call.Return(call.b.Binary(OpKind::kMul, call.b.Slice(x, dim, 0, size / 2), gate));
}
void Prelu(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* weight = call.b.Cast(call.Tensor("weight"), x->type.dtype);
  if (weight->type.rank() == 1 && weight->type.sizes[0] != 1 && x->type.rank() > 2) {
    Dims sizes(x->type.rank() - 1, 1);
    sizes[0] = weight->type.sizes[0];
    weight = call.b.Reshape(weight, sizes);
  }
  Value* positive = call.b.Binary(OpKind::kGt, x, 0.0);
  call.Return(call.b.Emit(OpKind::kWhere, {positive, x, call.b.Binary(OpKind::kMul, x, weight)}));
}

void NotEqual(Call& call) {
  const std::array<std::string_view, 2> names = {kSelf, kOther};
  const DType dtype = PromotedType(call, names);
  Value* equal =
      call.b.Binary(OpKind::kEq, call.Operand(kSelf, dtype), call.Operand(kOther, dtype));
  call.Return(call.b.Unary(OpKind::kLogicalNot, equal));
}

Value* IntegerPower(Call& call, Value* x, int64_t exponent) {
  Value* power = nullptr;
  for (Value* square = x; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) {
      power = power == nullptr ? square : call.b.Binary(OpKind::kMul, power, square);
    }
    if (exponent > 1) square = call.b.Binary(OpKind::kMul, square, square);
  }
  return power;
}
void PowScalar(Call& call) {
  constexpr double kLargestProduct = 8;
  Value* x = call.Operand(kSelf, call.dtype());
  const double exponent = call.Float("exponent");
  if (exponent == 0) return call.Return(call.b.Full(1, call.dtype(), x->type.sizes));
  if (exponent == 0.5) return call.Return(call.b.Unary(OpKind::kSqrt, x));
  if (exponent == -0.5) return call.Return(call.b.Unary(OpKind::kRsqrt, x));
  if (exponent == -1) return call.Return(call.b.Unary(OpKind::kReciprocal, x));
  if (exponent > 0 && exponent <= kLargestProduct && exponent == std::floor(exponent)) {
    return call.Return(IntegerPower(call, x, static_cast<int64_t>(exponent)));
  }
  call.Return(call.b.Binary(OpKind::kPow, x, exponent));
}
void Square(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Binary(OpKind::kMul, x, x));
}
void DivMode(Call& call) {
  // true_divide has none.
  const std::string mode = call.Has("rounding_mode") ? call.Text("rounding_mode") : "";
  Value* x = call.Operand(kSelf, call.dtype());
  Value* y = call.Operand(kOther, call.dtype());
  if (mode == "floor") return call.Return(call.b.Binary(OpKind::kFloorDiv, x, y));
  Value* quotient = call.b.Binary(OpKind::kDiv, x, y);
  call.Return(mode == "trunc" ? call.b.Unary(OpKind::kTrunc, quotient) : quotient);
}
void MaskedFill(Call& call) {
  Value* mask = call.b.Cast(call.Tensor("mask"), DType::kBool);
  Value* value = call.Operand("value", call.dtype());
  call.Return(call.b.Emit(OpKind::kWhere, {mask, value, call.Operand(kSelf, call.dtype())}));
}
void Frac(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Binary(OpKind::kSub, x, call.b.Unary(OpKind::kTrunc, x)));
}
void Erfc(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* one = call.b.Scalar(1, call.dtype());
  call.Return(call.b.Binary(OpKind::kSub, one, call.b.Unary(OpKind::kErf, x)));
}
void LogAddExp(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  Value* y = call.Operand(kOther, call.dtype());
  // Equal infinities have no gap.
  Value* gap =
      call.b.Emit(OpKind::kWhere, {call.b.Binary(OpKind::kEq, x, y), call.b.Scalar(0, call.dtype()),
                                   call.b.Unary(OpKind::kAbs, call.b.Binary(OpKind::kSub, x, y))});
  Value* rest =
      call.b.Unary(OpKind::kLog1p, call.b.Unary(OpKind::kExp, call.b.Unary(OpKind::kNeg, gap)));
  call.Return(call.b.Binary(OpKind::kAdd, call.b.Binary(OpKind::kMax, x, y), rest));
}
void NanToNum(Call& call) {
  Value* x = call.Tensor(kSelf);
  // The type's own limits replace infinities; f32's are the ones that matter in recipes.
  if (x->type.dtype != DType::kF32) return call.Refuse("nan_to_num of ", DTypeName(x->type.dtype));
  constexpr double kLargest = std::numeric_limits<float>::max();
  Value* nan = call.b.Unary(OpKind::kIsnan, x);
  Value* value = call.b.Scalar(call.Float("nan", 0), x->type.dtype);
  Value* positive = call.b.Scalar(call.Float("posinf", kLargest), x->type.dtype);
  Value* negative = call.b.Scalar(call.Float("neginf", -kLargest), x->type.dtype);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Value* y = call.b.Emit(OpKind::kWhere, {nan, value, x});
  Value* above = call.b.Binary(OpKind::kEq, x, kInfinity);
  Value* below = call.b.Binary(OpKind::kEq, x, -kInfinity);
  y = call.b.Emit(OpKind::kWhere, {above, positive, y});
  call.Return(call.b.Emit(OpKind::kWhere, {below, negative, y}));
}

constexpr HandlerRow kRows[] = {
    {"aten.add.Scalar", AddTensor},
    {"aten.add.Tensor", AddTensor},
    {"aten.addcdiv.default", Addcdiv},
    {"aten.addcmul.default", Addcmul},
    {"aten.celu.default", Celu},
    {"aten.clamp.Tensor", Clamp},
    {"aten.clamp.default", Clamp},
    {"aten.clamp_max.Tensor", Clamp},
    {"aten.clamp_max.default", Clamp},
    {"aten.clamp_min.Tensor", Clamp},
    {"aten.clamp_min.default", Clamp},
    {"aten.div.Scalar_mode", DivMode},
    {"aten.div.Tensor_mode", DivMode},
    {"aten.elu.default", Elu},
    {"aten.erfc.default", Erfc},
    {"aten.frac.default", Frac},
    {"aten.gelu.default", Gelu},
    {"aten.glu.default", Glu},
    {"aten.hardtanh.default", Hardtanh},
    {"aten.leaky_relu.default", LeakyRelu},
    {"aten.lerp.Scalar", LerpScalar},
    {"aten.lerp.Tensor", LerpTensor},
    {"aten.log_sigmoid.default", LogSigmoid},
    {"aten.logaddexp.default", LogAddExp},
    {"aten.masked_fill.Scalar", MaskedFill},
    {"aten.masked_fill.Tensor", MaskedFill},
    {"aten.nan_to_num.default", NanToNum},
    {"aten.ne.Scalar", NotEqual},
    {"aten.ne.Tensor", NotEqual},
    {"aten.pow.Tensor_Scalar", PowScalar},
    {"aten.prelu.default", Prelu},
    {"aten.relu6.default", Relu6},
    {"aten.rsub.Scalar", Rsub},
    {"aten.rsub.Tensor", Rsub},
    {"aten.selu.default", Selu},
    {"aten.softplus.default", Softplus},
    {"aten.square.default", Square},
    {"aten.sub.Scalar", SubTensor},
    {"aten.sub.Tensor", SubTensor},
    {"aten.threshold.default", Threshold},
    {"aten.true_divide.Tensor", DivMode},
    {"prims.fma.default", Fma},
};

}  // namespace

std::span<const HandlerRow> PointwiseRows() { return kRows; }

DType PromotedType(Call& call, std::span<const std::string_view> names) {
  DType dimensioned = DType::kInvalid;
  DType zero_dim = DType::kInvalid;
  DType number = DType::kInvalid;
  for (const std::string_view name : names) {
    if (call.IsTensor(name)) {
      const TensorType& type = call.Tensor(name)->type;
      DType& group = type.rank() > 0 ? dimensioned : zero_dim;
      group = Promote(group, type.dtype);
    } else if (call.IsNumber(name)) {
      number = Promote(number, call.NumberType(name));
    }
  }
  // A lower group counts only if its category is higher.
  const auto combine = [](DType higher, DType lower) {
    if (CategoryOf(higher) == kNone || CategoryOf(lower) > CategoryOf(higher)) {
      return CategoryOf(higher) == kNone ? lower : Promote(higher, lower);
    }
    return higher;
  };
  return combine(dimensioned, combine(zero_dim, number));
}

void RewriteElementwise(Call& call, OpKind op) {
  const ir::OpTraits& traits = ir::Traits(op);
  // The operands come first in every schema, by whatever name.
  const auto count = static_cast<size_t>(traits.min_operands);
  if (call.argument_count() < count)
    return call.Refuse("has ", call.argument_count(), " arguments");
  std::vector<std::string_view> names;
  for (size_t i = 0; i < count; ++i) names.push_back(call.name(i));
  DType dtype = call.dtype();
  if (traits.dtypes == ir::DTypeSet::kBool) {
    dtype = DType::kBool;
  } else if (traits.result_type == ir::ResultType::kBool) {
    dtype = PromotedType(call, names);
    // isnan and the like: integers are never anything of that.
    if (!ir::Contains(traits.dtypes, dtype)) return call.Refuse(traits.name, " of integers");
  }
  std::vector<Value*> operands;
  for (size_t i = 0; i < count; ++i) {
    const bool condition = op == OpKind::kWhere && i == 0;
    operands.push_back(call.Operand(names[i], condition ? DType::kBool : dtype));
  }
  // On booleans multiplication is conjunction, and the complement has one bit.
  if (op == OpKind::kMul && dtype == DType::kBool) op = OpKind::kLogicalAnd;
  if (op == OpKind::kBitwiseNot && dtype == DType::kBool) op = OpKind::kLogicalNot;
  call.Return(call.b.Emit(op, std::move(operands)));
}

}  // namespace hpu::compiler
