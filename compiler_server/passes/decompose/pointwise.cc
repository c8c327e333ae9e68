// Rewrites pointwise calls, to one op of the table or to several.
#include <array>
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kAddAlpha = "alpha";

// Does the same as c10::promoteTypes, for the types of recipes.
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

// x + alpha * y or x - alpha * y
void AddOrSub(Call& call, std::string_view x, std::string_view y, OpKind op) {
  const double alpha = call.Stored(kAddAlpha, call.dtype());
  if (call.dtype() == DType::kBool) {
    if (op == OpKind::kSub || alpha != 1) return call.Refuse("arithmetic on booleans");
    op = OpKind::kLogicalOr;
  }
  if (alpha != 1) return Give(call, Apply(op, Wide(call, x), Wide(call, y) * alpha));
  call.Return(call.b.Binary(op, call.Factor(x, call.dtype()), call.Factor(y, call.dtype())));
}
void AddTensor(Call& call) { AddOrSub(call, kSelf, kOther, OpKind::kAdd); }
void SubTensor(Call& call) { AddOrSub(call, kSelf, kOther, OpKind::kSub); }
void Rsub(Call& call) { AddOrSub(call, kOther, kSelf, OpKind::kSub); }

// self + value * t1 * t2, self + value * t1 / t2
void AddProduct(Call& call, OpKind op) {
  Expr y = Wide(call, "tensor1");
  const double value = call.Stored("value", y.dtype());
  if (value != 1) y = y * value;
  Give(call, Wide(call, kSelf) + Apply(op, y, Wide(call, "tensor2")));
}
void Addcmul(Call& call) { AddProduct(call, OpKind::kMul); }
void Addcdiv(Call& call) { AddProduct(call, OpKind::kDiv); }

// PyTorch decomposes addcmul_ and similar calls to fma(a, b, c) = a * b + c.
void Fma(Call& call) {
  Give(call, Wide(call, call.name(0)) * Wide(call, call.name(1)) + Wide(call, call.name(2)));
}

// Like the eager kernel, this calculates from the nearer end, so that a weight of 1 gives `end`
// exactly.
void LerpScalar(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr end = Wide(call, "end");
  const double weight = call.Stored("weight", x.dtype());
  const bool from_end = std::abs(weight) >= 0.5;
  Give(call, (from_end ? end : x) + (end - x) * (from_end ? weight - 1 : weight));
}
void LerpTensor(Call& call) {
  const Expr x = Wide(call, kSelf);
  const Expr end = Wide(call, "end");
  const Expr weight = Wide(call, "weight");
  const Expr from_end = Abs(weight) >= 0.5;
  const Expr factor = Where(from_end, weight - 1.0, weight);
  Give(call, Where(from_end, end, x) + factor * (end - x));
}

// clamp, clamp_min, clamp_max
void Clamp(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  if (call.Has("min")) x = call.b.Binary(OpKind::kMax, x, call.Chosen("min", call.dtype()));
  if (call.Has("max")) x = call.b.Binary(OpKind::kMin, x, call.Chosen("max", call.dtype()));
  call.Return(x);
}

void ClampTo(Call& call, double low, double high) {
  Value* x = call.b.Binary(OpKind::kMax, call.Tensor(kSelf), low);
  call.Return(call.b.Binary(OpKind::kMin, x, high));
}
void Hardtanh(Call& call) {
  ClampTo(call, call.Stored("min_val", call.dtype()), call.Stored("max_val", call.dtype()));
}
void Relu6(Call& call) { ClampTo(call, 0, 6); }

void Gelu(Call& call) {
  const bool tanh = call.Text("approximate") == "tanh";
  call.Return(call.b.Unary(tanh ? OpKind::kGeluTanh : OpKind::kGelu, call.Tensor(kSelf)));
}

Value* EmitElu(Call& call, Value* x, double alpha) {
  return call.b.Emit(OpKind::kElu, {x}, {{AttrKey::kAlpha, alpha}});
}
Expr EmitElu(Expr x, double alpha) { return {x.call, EmitElu(*x.call, x.value, alpha)}; }
void Elu(Call& call) {
  const double alpha = call.Stored("alpha", DType::kF32);
  const double scale = call.Stored("scale", DType::kF32);
  const double input_scale = call.Stored("input_scale", DType::kF32);
  if (input_scale != 1) {
    const Expr x = Wide(call, kSelf);
    return Give(call, Where(x > 0.0, x, EmitElu(x * input_scale, alpha)) * scale);
  }
  if (scale == 1) return call.Return(EmitElu(call, call.Tensor(kSelf), alpha));
  Give(call, EmitElu(Wide(call, kSelf), alpha) * scale);
}
void Selu(Call& call) {
  constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  Give(call, EmitElu(Wide(call, kSelf), kSeluAlpha) * kScale);
}
void Celu(Call& call) {
  const double alpha = call.Stored("alpha", DType::kF32);
  if (alpha == 1) return call.Return(EmitElu(call, call.Tensor(kSelf), 1));
  // elu(x / alpha) * alpha = max(x, 0) + min(0, alpha * expm1(x / alpha)).
  Give(call, EmitElu(Wide(call, kSelf) / alpha, 1) * alpha);
}
void LeakyRelu(Call& call) {
  call.Return(call.b.Emit(OpKind::kLeakyRelu, {call.Tensor(kSelf)},
                          {{AttrKey::kAlpha, call.Stored("negative_slope", DType::kF32)}}));
}
Value* EmitSoftplus(Call& call, Value* x, double beta, double threshold) {
  return call.b.Emit(OpKind::kSoftplus, {x},
                     {{AttrKey::kBeta, beta}, {AttrKey::kThreshold, threshold}});
}
void Softplus(Call& call) {
  call.Return(EmitSoftplus(call, call.Tensor(kSelf), call.Stored("beta", DType::kF32),
                           call.Stored("threshold", DType::kF32)));
}
void LogSigmoid(Call& call) {
  // The result is -log(1 + exp(-x)). For x far below 0, softplus(-x) is -x itself.
  Value* negative = call.b.Unary(OpKind::kNeg, call.Tensor(kSelf));
  call.Return(call.b.Unary(OpKind::kNeg, EmitSoftplus(call, negative, 1, 88)));
}
void Threshold(Call& call) {
  const Expr x = Wide(call, kSelf);
  // A NaN stays NaN. PyTorch compares in f32.
  const Expr below = x <= call.Stored("threshold", call.dtype());
  Give(call, Where(below, call.Stored("value", call.dtype()), x));
}
void Glu(Call& call) {
  const Expr x = Wide(call, kSelf);
  const int64_t dim = call.Dim("dim", x.rank());
  if (call.refused()) return;
  const int64_t size = x.sizes()[dim];
  Give(call, Slice(x, dim, 0, size / 2) * Sigmoid(Slice(x, dim, size / 2, size)));
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

// Compares truth values. The memory of one may hold any byte that is not 0, which logical ops take
// as true.
void CompareTruths(Call& call, OpKind op, Expr x, Expr y) {
  const auto inverted = [](Expr z) { return Apply(OpKind::kLogicalNot, z); };
  switch (op) {
    case OpKind::kEq:
      return Give(call, inverted(Apply(OpKind::kLogicalXor, x, y)));
    case OpKind::kLt:
      return Give(call, inverted(x) & y);
    case OpKind::kLe:
      return Give(call, inverted(x) | y);
    case OpKind::kGt:
      return Give(call, x & inverted(y));
    default:
      return Give(call, x | inverted(y));
  }
}

void NotEqual(Call& call) {
  const std::array<std::string_view, 2> names = {kSelf, kOther};
  const DType dtype = PromotedType(call, names);
  if (dtype == DType::kBool) {
    return call.Return(call.b.Binary(OpKind::kLogicalXor, call.Operand(kSelf, dtype),
                                     call.Operand(kOther, dtype)));
  }
  Value* equal =
      call.b.Binary(OpKind::kEq, call.Operand(kSelf, dtype), call.Operand(kOther, dtype));
  call.Return(call.b.Unary(OpKind::kLogicalNot, equal));
}

void Square(Call& call) {
  Value* x = call.Operand(kSelf, call.dtype());
  call.Return(call.b.Binary(OpKind::kMul, x, x));
}
void DivMode(Call& call) {
  // true_divide has no rounding mode.
  const std::string mode = call.Has("rounding_mode") ? call.Text("rounding_mode") : "";
  if (mode == "trunc" && !IsFloat(call.dtype())) {
    const Expr x{&call, call.Operand(kSelf, call.dtype())};
    const Expr y{&call, call.Operand(kOther, call.dtype())};
    // The floor of a negative quotient that is not whole is one less.
    const Expr floor = Apply(OpKind::kFloorDiv, x, y);
    const Expr is_whole = Apply(OpKind::kRemainder, x, y) == 0.0;
    return Give(call, floor + Where(is_whole | (floor >= 0.0), 0.0, Number(floor, 1)));
  }
  if (mode == "trunc") {
    return Give(call, Apply(OpKind::kTrunc, Wide(call, kSelf) / Wide(call, kOther)));
  }
  const OpKind op = mode == "floor" ? OpKind::kFloorDiv : OpKind::kDiv;
  Value* x = call.Factor(kSelf, call.dtype());
  call.Return(call.b.Binary(op, x, call.Factor(kOther, call.dtype())));
}
void MaskedFill(Call& call) {
  Value* mask = call.b.Cast(call.Tensor("mask"), DType::kBool);
  Value* value = call.Chosen("value", call.dtype());
  call.Return(call.b.Emit(OpKind::kWhere, {mask, value, call.Operand(kSelf, call.dtype())}));
}
void Frac(Call& call) {
  const Expr x = Wide(call, kSelf);
  Give(call, x - Apply(OpKind::kTrunc, x));
}
void LogAddExp(Call& call) { Give(call, LogOfSum(Wide(call, kSelf), Wide(call, kOther))); }

constexpr HandlerRow kPointwiseRows[] = {
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
    {"aten.ne.Scalar", NotEqual},
    {"aten.ne.Tensor", NotEqual},
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

std::span<const HandlerRow> PointwiseRows() { return kPointwiseRows; }

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
  // The type of a lower group counts only if its category is higher.
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
  // The operands come first in every schema, but their names differ.
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
    // The op is isnan or a similar one. Integers are finite.
    if (!ir::Contains(traits.dtypes, dtype)) {
      return call.Return(
          call.b.Full(op == OpKind::kIsfinite ? 1 : 0, DType::kBool, call.type().sizes));
    }
  }
  std::vector<Value*> operands;
  for (size_t i = 0; i < count; ++i) {
    if (op == OpKind::kWhere) {
      operands.push_back(i == 0 ? call.Operand(names[i], DType::kBool)
                                : call.Chosen(names[i], dtype));
    } else {
      operands.push_back(ir::Has(op, ir::OpFlag::kKeepsNumbers) ? call.Factor(names[i], dtype)
                                                                : call.Operand(names[i], dtype));
    }
  }
  const bool compares = op == OpKind::kEq || op == OpKind::kLt || op == OpKind::kLe ||
                        op == OpKind::kGt || op == OpKind::kGe;
  if (compares && dtype == DType::kBool) {
    return CompareTruths(call, op, {&call, operands[0]}, {&call, operands[1]});
  }
  // PyTorch's rounding functions return integers as they are.
  const bool rounds =
      op == OpKind::kFloor || op == OpKind::kCeil || op == OpKind::kTrunc || op == OpKind::kRound;
  if (rounds && IsInteger(dtype)) return call.Return(operands[0]);
  // For booleans multiplication is conjunction, and the complement has only one bit.
  if (op == OpKind::kMul && dtype == DType::kBool) op = OpKind::kLogicalAnd;
  if (op == OpKind::kBitwiseNot && dtype == DType::kBool) op = OpKind::kLogicalNot;
  call.Return(call.b.Emit(op, std::move(operands)));
}

}  // namespace hpu::compiler
