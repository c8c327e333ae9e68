// Tensors that are made from parameters alone.
#include <algorithm>
#include <cmath>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_emulator.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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
    if (ComputeType(im.OutputType(0)) != kF32) {
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

// The inputs are seed and offset of the generator. Element i, row-major, is number i of the draw.
absl::Status ImportPhiloxUniform(Importer& im) {
  synEmulatorPhiloxParams params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  const int64_t base = static_cast<int64_t>(params.baseHigh) << 32 | params.baseLow;
  const Shape shape = im.OutputShape(0);
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  im.MapToOutput(0, {im.Input(0), im.Input(1)}, [&](BodyBuilder& body, const Args& state) {
    const E first = state[1] + body.ConstInt(ScalarType::kI64, base);
    const E index = body.Load(Importer::Iota(strides));
    return body.Op(Opcode::kPhiloxUniform, kF32, {state[0], first, index});
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferPhilox(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  for (const uint32_t input : {context.node.inputs[0], context.node.inputs[1]}) {
    const TensorDesc& state = context.graph.tensors[input];
    if (state.dtype != syn_type_int64 || !(state.sizes.empty() || state.sizes == Sizes{1})) {
      return InvalidArgument("seed and offset are not one i64 each");
    }
  }
  return InferDeclared(context);
}

const GuidRow kSourceRows[] = {
    {"constant", InferDeclared, ImportConstant},
    {"memset", InferDeclared, ImportMemset},
    {"philox_uniform_fwd", InferPhilox, ImportPhiloxUniform},
    {"range", InferRange, ImportRange},
};

}  // namespace

std::span<const GuidRow> SourceRows() { return kSourceRows; }

}  // namespace hpu::graph_compiler
