// Elementwise kinds without parameters have one row each. The expression of a row gets the inputs,
// already broadcast.
#include <cmath>
#include <limits>

#include "graph_compiler/import/elementwise.h"
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

struct PlainRow {
  std::string_view name;
  size_t arity;
  E (*expression)(const Args& a);
  bool compares = false;
};

bool IsConstant(const Importer& im, size_t input) {
  return im.InputDesc(input).placement == TensorPlacement::kConstant;
}

template <Opcode kOp>
E Float1(const Args& a) {
  return FloatFunction(kOp, a[0]);
}
template <Opcode kOp>
E Float2(const Args& a) {
  return Binary(kOp, Cast(a[0], kF32), Cast(a[1], kF32));
}
template <Opcode kOp>
E Same1(const Args& a) {
  return Unary(kOp, a[0]);
}
template <Opcode kOp>
E Same2(const Args& a) {
  return Binary(kOp, a[0], a[1]);
}
template <Opcode kOp>
E Compare2(const Args& a) {
  return Compare(kOp, a[0], a[1]);
}
template <Opcode kOp>
E Test1(const Args& a) {
  return a[0].body->Op(kOp, ScalarType::kBool, {Cast(a[0], kF32)});
}

E Softplus(E x) { return Select(x > 20.0, x, FloatFunction(Opcode::kLog1p, Exp(x))); }

E Sinc(const Args& a) {
  const E x = Cast(a[0], kF32);
  const E angle = x * M_PI;
  return Select(EqualTo(x, ConstLike(x, 0)), ConstLike(x, 1),
                FloatFunction(Opcode::kSin, angle) / angle);
}

E Hypot(const Args& a) {
  const E x = Unary(Opcode::kAbs, Cast(a[0], kF32));
  const E y = Unary(Opcode::kAbs, Cast(a[1], kF32));
  const E large = Max(x, y);
  const E ratio = Min(x, y) / large;
  const E root = large * Sqrt(ratio * ratio + 1.0);
  const E infinity = ConstLike(x, std::numeric_limits<double>::infinity());
  const E unbounded = Or(EqualTo(x, infinity), EqualTo(y, infinity));  // also beside a NaN
  return Select(EqualTo(large, ConstLike(x, 0)), large, Select(unbounded, infinity, root));
}

E LogAddExp(const Args& a) {
  const E x = Cast(a[0], kF32);
  const E y = Cast(a[1], kF32);
  const E distance = Unary(Opcode::kAbs, x - y);
  const E sum = Max(x, y) + FloatFunction(Opcode::kLog1p, Exp(-distance));
  return Select(EqualTo(x, y), x + M_LN2, sum);
}

E Xlogy(const Args& a) {
  const E x = Cast(a[0], kF32);
  const E y = Cast(a[1], kF32);
  const E is_nan = y.body->Op(Opcode::kIsNan, ScalarType::kBool, {y});
  const E zero = And(EqualTo(x, ConstLike(x, 0)), Not(is_nan));
  return Select(zero, ConstLike(x, 0), x * Log(y));
}

E Pow2(E x) { return Binary(Opcode::kPow, ConstLike(x, 2), x); }  // 2 to the power of x

E Div(const Args& a) { return a[0] / a[1]; }

// mod has the sign of the dividend (C's fmod); rem has the sign of the divisor (Python's %).
const PlainRow kPlainRows[] = {
    {"add_fwd", 2, Same2<Opcode::kAdd>},
    {"sub_fwd", 2, Same2<Opcode::kSub>},
    {"mult_fwd", 2, Same2<Opcode::kMul>},
    {"div_fwd", 2, Div},
    {"min_fwd", 2, Same2<Opcode::kMin>},
    {"max_fwd", 2, Same2<Opcode::kMax>},
    {"pow_fwd", 2, Same2<Opcode::kPow>},
    {"rem_fwd", 2, Same2<Opcode::kFloorMod>},
    {"mod_fwd", 2, Same2<Opcode::kRem>},
    {"floor_divide_fwd", 2, Same2<Opcode::kFloorDiv>},
    {"atan2_fwd", 2, Float2<Opcode::kAtan2>},
    {"hypot_fwd", 2, Hypot},
    {"xlogy_fwd", 2, Xlogy},
    {"logaddexp_fwd", 2, LogAddExp},
    {"bitwise_and_fwd", 2, [](const Args& a) { return And(a[0], a[1]); }},
    {"bitwise_or_fwd", 2, [](const Args& a) { return Or(a[0], a[1]); }},
    {"bitwise_xor_fwd", 2,
     [](const Args& a) { return a[0].body->Op(Opcode::kXor, a[0].type(), {a[0], a[1]}); }},
    {"bitwise_not_fwd", 1, Same1<Opcode::kNot>},
    {"and", 2, [](const Args& a) { return And(Truth(a[0]), Truth(a[1])); }},
    {"or", 2, [](const Args& a) { return Or(Truth(a[0]), Truth(a[1])); }},
    {"xor", 2, [](const Args& a) { return Compare(Opcode::kNe, Truth(a[0]), Truth(a[1])); }},
    {"not", 1, [](const Args& a) { return Not(Truth(a[0])); }},
    {"and_fwd", 2, [](const Args& a) { return And(Truth(a[0]), Truth(a[1])); }},
    {"or_fwd", 2, [](const Args& a) { return Or(Truth(a[0]), Truth(a[1])); }},
    {"xor_fwd", 2, [](const Args& a) { return Compare(Opcode::kNe, Truth(a[0]), Truth(a[1])); }},
    {"not_fwd", 1, [](const Args& a) { return Not(Truth(a[0])); }},
    {"equal_fwd", 2, Compare2<Opcode::kEq>, true},
    {"not_equal_fwd", 2, Compare2<Opcode::kNe>, true},
    {"less_fwd", 2, Compare2<Opcode::kLt>, true},
    {"less_equal_fwd", 2, Compare2<Opcode::kLe>, true},
    {"greater_fwd", 2, Compare2<Opcode::kGt>, true},
    {"greater_equal_fwd", 2, Compare2<Opcode::kGe>, true},
    {"isnan_fwd", 1, Test1<Opcode::kIsNan>},
    {"isfinite_fwd", 1, Test1<Opcode::kIsFinite>},
    {"neg_fwd", 1, Same1<Opcode::kNeg>},
    {"abs_fwd", 1, Same1<Opcode::kAbs>},
    {"sign_fwd", 1, Same1<Opcode::kSign>},
    {"floor_fwd", 1, Same1<Opcode::kFloor>},
    {"ceil_fwd", 1, Same1<Opcode::kCeil>},
    {"trunc_fwd", 1, Same1<Opcode::kTrunc>},
    {"exp_fwd", 1, Float1<Opcode::kExp>},
    {"exp_fast_math_fwd", 1, Float1<Opcode::kExp>},
    {"expm1_fwd", 1, Float1<Opcode::kExpm1>},
    {"log_fwd", 1, Float1<Opcode::kLog>},
    {"log1p_fwd", 1, Float1<Opcode::kLog1p>},
    {"log2_fwd", 1, Float1<Opcode::kLog2>},
    {"log10_fwd", 1, Float1<Opcode::kLog10>},
    {"sqrt_fwd", 1, Float1<Opcode::kSqrt>},
    {"sqrt_fast_math_fwd", 1, Float1<Opcode::kSqrt>},
    {"rsqrt_fwd", 1, Float1<Opcode::kRsqrt>},
    {"rsqrt_fast_math_fwd", 1, Float1<Opcode::kRsqrt>},
    {"reciprocal_fwd", 1, Float1<Opcode::kReciprocal>},
    {"sin_fwd", 1, Float1<Opcode::kSin>},
    {"cos_fwd", 1, Float1<Opcode::kCos>},
    {"tan_fwd", 1, Float1<Opcode::kTan>},
    {"asin_fwd", 1, Float1<Opcode::kAsin>},
    {"acos_fwd", 1, Float1<Opcode::kAcos>},
    {"atan_fwd", 1, Float1<Opcode::kAtan>},
    {"sinh_fwd", 1, Float1<Opcode::kSinh>},
    {"cosh_fwd", 1, Float1<Opcode::kCosh>},
    {"tanh_fwd", 1, Float1<Opcode::kTanh>},
    {"asinh_fwd", 1, Float1<Opcode::kAsinh>},
    {"acosh_fwd", 1, Float1<Opcode::kAcosh>},
    {"atanh_fwd", 1, Float1<Opcode::kAtanh>},
    {"erf_fwd", 1, Float1<Opcode::kErf>},
    {"erfc_fwd", 1, Float1<Opcode::kErfc>},
    {"erfinv_fwd", 1, Float1<Opcode::kErfinv>},
    {"sigmoid_fwd", 1, Float1<Opcode::kSigmoid>},
    {"sinc_fwd", 1, Sinc},
    {"pow2_fwd", 1, [](const Args& a) { return Pow2(Cast(a[0], kF32)); }},
    {"mish_fwd", 1,
     [](const Args& a) { return Cast(a[0], kF32) * Tanh(Softplus(Cast(a[0], kF32))); }},
    {"hard_swish_fwd", 1,
     [](const Args& a) {
       const E x = Cast(a[0], kF32);
       return x * Min(Max(x + 3.0, ConstLike(x, 0)), ConstLike(x, 6)) * (1.0 / 6.0);
     }},
    {"where_fwd", 3, [](const Args& a) { return Select(a[0], a[1], a[2]); }},
    {"masked_fill_fwd", 3, [](const Args& a) { return Select(a[1], a[2], a[0]); }},
    {"prelu_fwd", 2, [](const Args& a) { return Select(a[0] > 0.0, a[0], a[0] * a[1]); }},
    {"sigmoid_bwd", 2,
     [](const Args& a) {
       const E y = Cast(a[1], kF32);
       return a[0] * y * (1.0 - y);
     }},
    {"tanh_bwd", 2,
     [](const Args& a) {
       const E y = Cast(a[1], kF32);
       return a[0] * (1.0 - y * y);
     }},
    {"silu_bwd", 2,
     [](const Args& a) {
       const E x = Cast(a[1], kF32);
       const E s = Sigmoid(x);
       return a[0] * s * (x * (1.0 - s) + 1.0);
     }},
};

absl::Status ImportPlain(Importer& im) {
  for (const PlainRow& row : kPlainRows) {
    if (row.name != im.guid_base()) continue;
    for (size_t i = 0; i < row.arity; ++i) {
      if (!im.HasInput(i)) return InvalidArgument("input ", i, " is missing");
    }
    const std::vector<View> inputs = AllInputs(im, row.arity);
    const bool rounds = row.compares && !IsConstant(im, 0) && !IsConstant(im, 1);
    im.MapToOutput(0, inputs, [&](BodyBuilder&, const Args& a) {
      return row.expression(rounds ? Args{AsStored(a[0], inputs[0]), AsStored(a[1], inputs[1])}
                                   : a);
    });
    return absl::OkStatus();
  }
  return Internal("no expression for ", im.guid_base());
}

}  // namespace

std::span<const GuidRow> ElementwiseRows() {
  static const auto* rows = [] {
    auto* list = new std::vector<GuidRow>();
    for (const PlainRow& row : kPlainRows) {
      list->push_back({row.name, row.arity == 1 ? InferSameAsFirst : InferBroadcast, ImportPlain});
    }
    return list;
  }();
  return *rows;
}

}  // namespace hpu::graph_compiler
