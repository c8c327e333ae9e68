// Activations with parameters.
#include <cmath>

#include "graph_compiler/import/elementwise.h"
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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
    // NaN stays NaN, because the comparison selects the elements that are at most the threshold.
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
  const MemoryType type = im.OutputType(0);
  const auto tanh_argument = [](E x) { return (x * x * x * 0.044715 + x) * 0.79788456080286536; };
  if (im.HasOutput(1)) {
    im.MapToOutput(1, {im.Input(0)}, [&](BodyBuilder&, const Args& a) {
      const E x = Cast(a[0], kF32);
      return approximation == 0 ? Erf(x * M_SQRT1_2) : Tanh(tanh_argument(x));
    });
  }
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32);
    // (1 + tanh(u)) / 2 = sigmoid(2 u)
    return x *
           (approximation == 0 ? NormalCdfFor(type, x) : SigmoidFor(type, tanh_argument(x) * 2.0));
  });
}

absl::Status ImportSilu(Importer& im) {
  return MapOne(im, [&](E x) { return Cast(x, kF32) * SigmoidFor(im.OutputType(0), x); });
}

absl::Status ImportHardSigmoid(Importer& im) {
  ns_HardSigmoidKernel_Params params{1.0f / 6, 0.5f};
  ReadParams(im.node(), &params);
  return MapOne(im, [&](E x) {
    x = Cast(x, kF32) * params.alpha + params.beta;
    return Min(Max(x, ConstLike(x, 0)), ConstLike(x, 1));
  });
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

const GuidRow kActivationRows[] = {
    {"relu_fwd", InferSameAsFirst, ImportRelu},
    {"threshold_fwd", InferSameAsFirst, ImportRelu},
    {"relu_bwd", InferBroadcast, ImportReluBackward},
    {"leakyrelu_fwd", InferSameAsFirst, ImportLeakyRelu},
    {"elu_fwd", InferSameAsFirst, ImportElu},
    {"selu_fwd", InferSameAsFirst, ImportSelu},
    {"gelu_fwd", InferSameAsFirst, ImportGelu},
    {"silu_fwd", InferSameAsFirst, ImportSilu},
    {"hard_sigmoid_fwd", InferSameAsFirst, ImportHardSigmoid},
    {"hardsigmoid_fwd", InferSameAsFirst, ImportHardSigmoid},
    {"hardtanh_fwd", InferSameAsFirst, ImportHardTanh},
    {"softplus_fwd", InferSameAsFirst, ImportSoftplus},
    {"shrink_fwd", InferSameAsFirst, ImportShrink},
    {"logit_fwd", InferSameAsFirst, ImportLogit},
};

}  // namespace

std::span<const GuidRow> ActivationRows() { return kActivationRows; }

}  // namespace hpu::graph_compiler
