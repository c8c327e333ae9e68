// Rewrites the ops of PyTorch 2 export quantisation by PyTorch's definitions, which are calculated
// in f32 and rounded half to even:
//   q = clamp(round(x * (1 / scale)) + zero, min, max);  x = (q - zero) * scale.
// The graph compiler recognises products of two such x again (fusion/int8_products).
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

struct Parameters {
  Expr scale, inverse, zero;
};

// Returns the parameters for one scale. They are numbers, or tensors of one element.
Parameters PerTensor(Call& call) {
  const auto number = [&](double value) { return Expr{&call, call.b.Scalar(value, DType::kF32)}; };
  const Expr zero = In(call, "zero_point");
  if (call.IsNumber("scale")) {
    const double scale = call.Float("scale");
    return {number(scale), number(1.0 / scale), zero};
  }
  const Expr scale = Reshape(In(call, "scale"), {});
  return {scale, 1.0 / scale, Reshape(zero, {})};
}

// Returns the parameters for one scale per index of dimension `axis`, which broadcast over the
// input. Zero points that are missing are 0.
Parameters PerChannel(Call& call) {
  const Value* x = call.Tensor("input");
  const int64_t rank = x->type.rank();
  const int64_t axis = call.Dim("axis", rank);
  const auto along_axis = [&](Value* value) {
    Dims sizes(static_cast<size_t>(rank), 1);
    if (!call.refused()) sizes[static_cast<size_t>(axis)] = value->type.elements();
    return Reshape(In(call, value), sizes);
  };
  const Expr scale = along_axis(call.Tensor("scales"));
  Value* zero = call.OptionalTensor("zero_points");
  return {scale, 1.0 / scale, zero == nullptr ? Number(scale, 0) : along_axis(zero)};
}

template <Parameters (*ParametersOf)(Call& call)>
void Quantize(Call& call) {
  const Parameters p = ParametersOf(call);
  const Expr steps = Apply(OpKind::kRound, In(call, "input") * p.inverse) + p.zero;
  const Expr bounded = Apply(OpKind::kMax, steps, In(call, "quant_min"));
  Give(call, Apply(OpKind::kMin, bounded, In(call, "quant_max")));
}

template <Parameters (*ParametersOf)(Call& call)>
void Dequantize(Call& call) {
  const Parameters p = ParametersOf(call);
  Give(call, (In(call, "input") - p.zero) * p.scale);
}

constexpr HandlerRow kQuantizeRows[] = {
    {"quantized_decomposed.dequantize_per_channel.default", Dequantize<PerChannel>},
    {"quantized_decomposed.dequantize_per_tensor.default", Dequantize<PerTensor>},
    {"quantized_decomposed.dequantize_per_tensor.tensor", Dequantize<PerTensor>},
    {"quantized_decomposed.quantize_per_channel.default", Quantize<PerChannel>},
    {"quantized_decomposed.quantize_per_tensor.default", Quantize<PerTensor>},
    {"quantized_decomposed.quantize_per_tensor.tensor", Quantize<PerTensor>},
    {"quantized_decomposed.quantize_per_tensor.tensor2", Quantize<PerTensor>},
};

}  // namespace

std::span<const HandlerRow> QuantizeRows() { return kQuantizeRows; }

}  // namespace hpu::compiler
