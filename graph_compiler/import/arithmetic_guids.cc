// Arithmetic with parameters, tests, rounding and casts.
#include <limits>

#include "graph_compiler/import/elementwise.h"
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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
    // Rounds half away from zero.
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

absl::Status ImportCast(Importer& im) {
  int32_t mode = NS_CAST_ROUND_DEFAULT;
  const bool has_mode = ReadParams(im.node(), &mode);
  const MemoryType to = im.OutputType(0);
  if (has_mode &&
      (mode == NS_CAST_ROUND_STOCHASTIC || mode == NS_CAST_ROUND_STOCHASTIC_FLUSH_TO_ZERO)) {
    return Unimplemented("casts with stochastic rounding");
  }
  return MapOne(im, [&](E x) {
    // A cast rounds even where fusion keeps the value in a register, unless the cast leaves the
    // rounding to the device. In that case the value is rounded when it is stored, like other
    // results of a narrow type.
    if (x.type() == kF32 && ComputeType(to) == kF32) {
      return has_mode && mode == NS_CAST_ROUND_DEFAULT ? x : RoundTo(x, to);
    }
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

const GuidRow kArithmeticRows[] = {
    {"clamp_pt_fwd", InferBroadcast, ImportClamp},
    {"clamp_fwd", InferBroadcast, ImportClamp},
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
};

}  // namespace

std::span<const GuidRow> ArithmeticRows() { return kArithmeticRows; }

}  // namespace hpu::graph_compiler
