// Elementwise kinds: one row each. The row's expression gets the inputs, already broadcast.
#include <cmath>
#include <limits>

#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

using Args = std::vector<E>;
constexpr ScalarType kF32 = ScalarType::kF32;

// ---- rows without params --------------------------------------------------------------------

struct PlainRow {
  std::string_view name;
  size_t arity;
  E (*expression)(const Args& a);
};

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
  return Select(EqualTo(large, ConstLike(x, 0)), large,
                Select(EqualTo(large, infinity), infinity, root));
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

E Div(const Args& a) { return a[0] / a[1]; }

// rem has the sign of the dividend, mod that of the divisor.
const PlainRow kPlainRows[] = {
    {"add_fwd", 2, Same2<Opcode::kAdd>},
    {"sub_fwd", 2, Same2<Opcode::kSub>},
    {"mult_fwd", 2, Same2<Opcode::kMul>},
    {"div_fwd", 2, Div},
    {"min_fwd", 2, Same2<Opcode::kMin>},
    {"max_fwd", 2, Same2<Opcode::kMax>},
    {"pow_fwd", 2, Same2<Opcode::kPow>},
    {"rem_fwd", 2, Same2<Opcode::kRem>},
    {"mod_fwd", 2, Same2<Opcode::kFloorMod>},
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
    {"equal_fwd", 2, Compare2<Opcode::kEq>},
    {"not_equal_fwd", 2, Compare2<Opcode::kNe>},
    {"less_fwd", 2, Compare2<Opcode::kLt>},
    {"less_equal_fwd", 2, Compare2<Opcode::kLe>},
    {"greater_fwd", 2, Compare2<Opcode::kGt>},
    {"greater_equal_fwd", 2, Compare2<Opcode::kGe>},
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
    {"sigmoid_fwd", 1, Float1<Opcode::kSigmoid>},
    {"sinc_fwd", 1, Sinc},
    {"pow2_fwd", 1, [](const Args& a) { return a[0] * a[0]; }},
    {"silu_fwd", 1, [](const Args& a) { return Cast(a[0], kF32) * Sigmoid(a[0]); }},
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

std::vector<View> AllInputs(Importer& im, size_t count) {
  std::vector<View> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(im.Input(i));
  return inputs;
}

absl::Status ImportPlain(Importer& im) {
  for (const PlainRow& row : kPlainRows) {
    if (row.name != im.guid_base()) continue;
    for (size_t i = 0; i < row.arity; ++i) {
      if (!im.HasInput(i)) return InvalidArgument("input ", i, " is missing");
    }
    im.MapToOutput(0, AllInputs(im, row.arity),
                   [&](BodyBuilder&, const Args& a) { return row.expression(a); });
    return absl::OkStatus();
  }
  return Internal("no expression for ", im.guid_base());
}

// ---- rows with params -----------------------------------------------------------------------

template <typename Function>
absl::Status MapOne(Importer& im, const Function& function) {
  if (!im.HasInput(0)) return InvalidArgument("input 0 is missing");
  im.MapToOutput(0, {im.Input(0)},
                 [&](BodyBuilder&, const Args& a) -> E { return function(a[0]); });
  return absl::OkStatus();
}

absl::Status ImportRelu(Importer& im) {
  ns_ReluKernel_ParamsV2 params{};
  const bool has_replacement = ReadParams(im.node(), &params);
  if (!has_replacement && im.node().params.size() >= 4) {
    std::memcpy(&params, im.node().params.data(), 4);
  }
  return MapOne(im, [&](E x) {
    const bool is_float = x.type() == kF32;
    const double threshold = is_float ? params.threshold.f : params.threshold.i;
    const double replacement = is_float ? params.replacementValue.f : params.replacementValue.i;
    if (threshold == 0 && replacement == 0) return Max(x, ConstLike(x, 0));
    // NaN stays: the comparison selects what is at most the threshold.
    return Select(x <= ConstLike(x, threshold), ConstLike(x, replacement), x);
  });
}

absl::Status ImportReluBackward(Importer& im) {
  ns_Fint threshold{};
  ReadParams(im.node(), &threshold);
  if (!im.HasInput(1)) return InvalidArgument("input 1 is missing");
  im.MapToOutput(0, {im.Input(0), im.Input(1)}, [&](BodyBuilder&, const Args& a) {
    return Select(a[1] > threshold.f, a[0], ConstLike(a[0], 0));
  });
  return absl::OkStatus();
}

absl::Status ImportLeakyRelu(Importer& im) {
  ns_LeakyReluKernel_Params params{};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) { return Select(x > 0.0, x, x * params.alpha); });
}

absl::Status ImportElu(Importer& im) {
  ns_EluKernel_ParamsV3 params{};
  const size_t size = im.node().params.size();
  params.alpha = 1;
  params.scale = 1;
  params.input_scale = 1;
  if (size >= sizeof(params)) {
    ReadParams(im.node(), &params);
  } else if (size >= 4) {
    std::memcpy(&params.alpha, im.node().params.data(), 4);
  }
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    const E negative = FloatFunction(Opcode::kExpm1, x * params.input_scale) * params.alpha;
    return Select(x > 0.0, x, negative) * params.scale;
  });
}

absl::Status ImportSelu(Importer& im) {
  ns_SeluKernel_Params params{1.0507009873554805f, 1.6732632423543773f};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    return Select(x > 0.0, x, FloatFunction(Opcode::kExpm1, x) * params.alpha) * params.gamma;
  });
}

absl::Status ImportGelu(Importer& im) {
  uint8_t approximation = 0;
  ReadParams(im.node(), &approximation);
  const auto inner = [&](E x) {
    if (approximation == 0) return Erf(x * M_SQRT1_2);
    const E cubic = x * x * x * 0.044715 + x;
    return Tanh(cubic * 0.79788456080286536);
  };
  if (im.HasOutput(1)) {
    im.MapToOutput(1, {im.Input(0)},
                   [&](BodyBuilder&, const Args& a) { return inner(Cast(a[0], kF32)); });
  }
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    return x * 0.5 * (inner(x) + 1.0);
  });
}

absl::Status ImportHardSigmoid(Importer& im) {
  ns_HardSigmoidKernel_Params params{1.0f / 6, 0.5f};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32) * params.alpha + params.beta;
    return Min(Max(x, ConstLike(x, 0)), ConstLike(x, 1));
  });
}

double FromFint(const ns_Fint& value, E like) {
  return like.type() == kF32 ? static_cast<double>(value.f) : static_cast<double>(value.i);
}

absl::Status ImportHardTanh(Importer& im) {
  ns_HardTanhKernel_Params params{};
  params.upperBound.f = 1;
  params.lowerBound.f = -1;
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    return Min(Max(x, ConstLike(x, FromFint(params.lowerBound, x))),
               ConstLike(x, FromFint(params.upperBound, x)));
  });
}

// Bounds are tensors (inputs 1 and 2, each optional) or params.
absl::Status ImportClamp(Importer& im) {
  ns_ClampKernel_Params params{};
  const bool has_params = ReadParams(im.node(), &params);
  const bool has_min = im.HasInput(1);
  const bool has_max = im.HasInput(2);
  std::vector<View> inputs = {im.Input(0)};
  if (has_min) inputs.push_back(im.Input(1));
  if (has_max) inputs.push_back(im.Input(2));
  im.MapToOutput(0, inputs, [&](BodyBuilder&, const Args& a) {
    E x = a[0];
    size_t next = 1;
    if (has_min) x = Max(x, a[next++]);
    if (has_max) x = Min(x, a[next]);
    if (!has_min && !has_max && has_params) {
      x = Max(x, ConstLike(x, FromFint(params.lowerBound, x)));
      x = Min(x, ConstLike(x, FromFint(params.upperBound, x)));
    }
    return x;
  });
  return absl::OkStatus();
}

absl::Status ImportSoftplus(Importer& im) {
  ns_Softplus_Params params{1, 20};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    const E scaled = x * params.beta;
    return Select(scaled > params.threshold, x,
                  FloatFunction(Opcode::kLog1p, Exp(scaled)) * (1.0 / params.beta));
  });
}

absl::Status ImportShrink(Importer& im) {
  ns_ShrinkKernel_Params params{0.5f, 0};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    const E inside =
        Select(x < -static_cast<double>(params.lambda), x + params.bias, ConstLike(x, 0));
    return Select(x > params.lambda, x - params.bias, inside);
  });
}

absl::Status ImportLogit(Importer& im) {
  ns_LogitKernel_Params params{-1};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    if (params.epsilon >= 0) {
      x = Min(Max(x, ConstLike(x, params.epsilon)), ConstLike(x, 1.0 - params.epsilon));
    }
    return Log(x / (1.0 - x));
  });
}

absl::Status ImportBinaryWithAlpha(Importer& im) {
  ns_BinaryWithAlphaKernel_Params params{};
  params.alpha.f = 1;
  ReadParams(im.node(), &params);
  const size_t arity = params.mode >= NS_BINARY_ALPHA_CMUL ? 3 : 2;
  if (!im.HasInput(arity - 1)) return InvalidArgument("input ", arity - 1, " is missing");
  im.MapToOutput(0, AllInputs(im, arity), [&](BodyBuilder&, const Args& a) -> E {
    const double alpha = FromFint(params.alpha, a[0]);
    switch (params.mode) {
      case NS_BINARY_ALPHA_ADD:
        return a[0] + a[1] * alpha;
      case NS_BINARY_ALPHA_SUB:
        return a[0] - a[1] * alpha;
      case NS_BINARY_ALPHA_RSUB:
        return a[1] - a[0] * alpha;
      case NS_BINARY_ALPHA_CMUL:
        return a[0] + a[1] * a[2] * alpha;
      default:
        return a[0] + a[1] / a[2] * alpha;
    }
  });
  return absl::OkStatus();
}

absl::Status ImportAddc(Importer& im) {
  ns_AddcmulKernel_Params params{1};
  ReadParams(im.node(), &params);
  const bool multiply = im.guid_base() == "addcmul_fwd";
  const bool has_value = im.HasInput(3);
  im.MapToOutput(0, AllInputs(im, has_value ? 4 : 3), [&](BodyBuilder&, const Args& a) {
    const E term = multiply ? a[1] * a[2] : a[1] / a[2];
    return a[0] + (has_value ? term * a[3] : term * params.value);
  });
  return absl::OkStatus();
}

absl::Status ImportDivMod(Importer& im) {
  ns_DivModKernel_ParamsV2 params{1, 0};
  if (!ReadParams(im.node(), &params) && !im.node().params.empty()) {
    params.isPyCompatible = im.node().params[0];
  }
  const bool truncate = params.isPyCompatible == 0 || params.isTruncRoundingMode != 0;
  const std::vector<View> inputs = AllInputs(im, 2);
  if (im.HasOutput(1)) {
    im.MapToOutput(1, inputs, [&](BodyBuilder&, const Args& a) {
      return Binary(truncate ? Opcode::kRem : Opcode::kFloorMod, a[0], a[1]);
    });
  }
  if (!im.HasOutput(0)) return absl::OkStatus();
  im.MapToOutput(0, inputs, [&](BodyBuilder&, const Args& a) {
    if (!truncate) return Binary(Opcode::kFloorDiv, a[0], a[1]);
    return Unary(Opcode::kTrunc, a[0] / a[1]);
  });
  return absl::OkStatus();
}

absl::Status ImportRound(Importer& im) {
  ns_RoundKernel_Params params{NS_ROUND_HALF_TO_EVEN};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    if (params.roundMode == NS_ROUND_HALF_TO_EVEN || x.type() != kF32) {
      return Unary(Opcode::kRound, x);
    }
    // Half away from zero.
    const E magnitude = Unary(Opcode::kAbs, x);
    const E whole = Unary(Opcode::kTrunc, magnitude);
    const E up = magnitude - whole >= ConstLike(x, 0.5);
    const E rounded = whole + Cast(up, kF32);
    return Select(x < 0.0, -rounded, rounded);
  });
}

absl::Status ImportBitShift(Importer& im) {
  ns_BitShiftKernel_Params params{};
  ReadParams(im.node(), &params);
  const Opcode op = params.direction == NS_SHIFT_LEFT ? Opcode::kShl : Opcode::kShr;
  im.MapToOutput(0, AllInputs(im, 2),
                 [&](BodyBuilder&, const Args& a) { return Binary(op, a[0], a[1]); });
  return absl::OkStatus();
}

absl::Status ImportIsInf(Importer& im) {
  ns_IsInfKernel_Params params{1, 1};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    const E infinity = ConstLike(x, std::numeric_limits<double>::infinity());
    const E positive = EqualTo(x, infinity);
    const E negative = EqualTo(-x, infinity);
    if (params.detect_negative == 0) return positive;
    if (params.detect_positive == 0) return negative;
    return Or(positive, negative);
  });
}

absl::Status ImportNanToNum(Importer& im) {
  ns_NanToNumKernel_Params params{0, std::numeric_limits<float>::max(),
                                  std::numeric_limits<float>::lowest()};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    const E infinity = ConstLike(x, std::numeric_limits<double>::infinity());
    const E is_nan = x.body->Op(Opcode::kIsNan, ScalarType::kBool, {x});
    E y = Select(EqualTo(x, infinity), ConstLike(x, params.posInf), x);
    y = Select(EqualTo(-x, infinity), ConstLike(x, params.negInf), y);
    return Select(is_nan, ConstLike(x, params.nan), y);
  });
}

absl::Status ImportScale(Importer& im) {
  ns_Scale_Params params{1};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) { return x * params.scale; });
}

bool IsIntegerType(MemoryType type) { return ComputeType(type) != kF32; }

absl::Status ImportCast(Importer& im) {
  int32_t mode = NS_CAST_ROUND_DEFAULT;
  const bool has_mode = ReadParams(im.node(), &mode);
  const MemoryType to = im.OutputType(0);
  if (has_mode &&
      (mode == NS_CAST_ROUND_STOCHASTIC || mode == NS_CAST_ROUND_STOCHASTIC_FLUSH_TO_ZERO)) {
    return Unimplemented("casts with stochastic rounding");
  }
  return MapOne(im, [&](E x) {
    // An explicit cast rounds even where fusion keeps the value in a register; other results of
    // narrow type are rounded only when they are stored.
    if (x.type() == kF32 && ComputeType(to) == kF32) return RoundTo(x, to);
    if (!has_mode || x.type() != kF32) return x;
    switch (mode) {
      case NS_CAST_ROUND_HALF_TO_EVEN:
        return Unary(Opcode::kRound, x);
      case NS_CAST_ROUND_DOWN:
        return Unary(Opcode::kFloor, x);
      case NS_CAST_ROUND_UP:
        return Unary(Opcode::kCeil, x);
      default:
        return x;  // the store truncates
    }
  });
}

absl::Status ImportConstant(Importer& im) {
  ns_ConstantKernel_Params params{};
  ns_ConstantKernel_ParamsV2 wide{};
  const bool is_wide = im.node().params.size() >= sizeof(wide) && ReadParams(im.node(), &wide);
  ReadParams(im.node(), &params);
  im.MapToOutput(0, {}, [&](BodyBuilder& body, const Args&) {
    const ScalarType type = ComputeType(im.OutputType(0));
    if (type == kF32) return body.Const(type, params.constant.f);
    if (type == ScalarType::kI64 && is_wide) {
      const auto low = static_cast<uint32_t>(wide.const_low);
      return body.ConstInt(type, static_cast<int64_t>(wide.const_high) << 32 | low);
    }
    return body.ConstInt(type, params.constant.i);
  });
  return absl::OkStatus();
}

absl::Status ImportMemset(Importer& im) {
  im.MapToOutput(0, {}, [&](BodyBuilder& body, const Args&) {
    return body.Const(ComputeType(im.OutputType(0)), 0);
  });
  return absl::OkStatus();
}

absl::Status ImportRange(Importer& im) {
  ns_RangeKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  const size_t rank = im.OutputShape(0).size();
  if (rank != 1) return InvalidArgument("the output of range has rank ", rank, ", not 1");
  im.MapToOutput(0, {}, [&](BodyBuilder& body, const Args&) {
    const E index = body.Load(Importer::Iota({1}));
    if (IsIntegerType(im.OutputType(0))) {
      return index * static_cast<double>(params.delta.i) + static_cast<double>(params.start.i);
    }
    return Cast(index, kF32) * static_cast<double>(params.delta.f) +
           static_cast<double>(params.start.f);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferRange(const ShapeContext& context) {
  ns_RangeKernel_Params params{};
  if (context.Output(0).sizes_known || !ReadParams(context.node, &params)) {
    return std::vector<Sizes>(1);
  }
  const bool is_float =
      context.Output(0).dtype == syn_type_float || context.Output(0).dtype == syn_type_bf16;
  const double span = is_float ? params.limit.f - params.start.f : params.limit.i - params.start.i;
  const double step = is_float ? params.delta.f : params.delta.i;
  if (step == 0) return InvalidArgument("range with delta 0");
  return std::vector<Sizes>{{static_cast<uint64_t>(std::max(0.0, std::ceil(span / step)))}};
}

const GuidRow kParamRows[] = {
    {"relu_fwd", InferSameAsFirst, ImportRelu},
    {"threshold_fwd", InferSameAsFirst, ImportRelu},
    {"relu_bwd", InferBroadcast, ImportReluBackward},
    {"leakyrelu_fwd", InferSameAsFirst, ImportLeakyRelu},
    {"elu_fwd", InferSameAsFirst, ImportElu},
    {"selu_fwd", InferSameAsFirst, ImportSelu},
    {"gelu_fwd", InferSameAsFirst, ImportGelu},
    {"hard_sigmoid_fwd", InferSameAsFirst, ImportHardSigmoid},
    {"hardsigmoid_fwd", InferSameAsFirst, ImportHardSigmoid},
    {"hardtanh_fwd", InferSameAsFirst, ImportHardTanh},
    {"clamp_pt_fwd", InferBroadcast, ImportClamp},
    {"clamp_fwd", InferBroadcast, ImportClamp},
    {"softplus_fwd", InferSameAsFirst, ImportSoftplus},
    {"shrink_fwd", InferSameAsFirst, ImportShrink},
    {"logit_fwd", InferSameAsFirst, ImportLogit},
    {"binary_with_alpha_fwd", InferBroadcast, ImportBinaryWithAlpha},
    {"addcmul_fwd", InferBroadcast, ImportAddc},
    {"addcdiv_fwd", InferBroadcast, ImportAddc},
    {"div_mod_fwd", InferBroadcast, ImportDivMod},
    {"round_fwd", InferSameAsFirst, ImportRound},
    {"bitshift_fwd", InferBroadcast, ImportBitShift},
    {"isinf_fwd", InferSameAsFirst, ImportIsInf},
    {"nan_to_num_fwd", InferSameAsFirst, ImportNanToNum},
    {"scale_fwd", InferSameAsFirst, ImportScale},
    {"cast", InferSameAsFirst, ImportCast},
    {"constant", InferDeclared, ImportConstant},
    {"memset", InferDeclared, ImportMemset},
    {"range", InferRange, ImportRange},
};

}  // namespace

std::span<const GuidRow> ElementwiseRows() {
  static const auto* rows = [] {
    auto* list = new std::vector<GuidRow>(std::begin(kParamRows), std::end(kParamRows));
    for (const PlainRow& row : kPlainRows) {
      list->push_back({row.name, row.arity == 1 ? InferSameAsFirst : InferBroadcast, ImportPlain});
    }
    return list;
  }();
  return *rows;
}

}  // namespace hpu::emulator
