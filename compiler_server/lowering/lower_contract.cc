// Lowers matrix products, convolutions and attention. The IR keeps images channels-last. Read
// FCD-first, that is the native order of the matrix engine ("CWHN", weights "KCSR"), so no node
// names a layout.
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_emulator.h"
#include "synapse/include/synapse_kernel_params.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

Dims WithMatrix(Dims batch, const Dims& sizes) {
  batch.insert(batch.end(), sizes.end() - 2, sizes.end());
  return batch;
}

Dims BatchOf(const Dims& sizes) { return Dims(sizes.begin(), sizes.end() - 2); }

// Turns a one-dimensional window into a two-dimensional one of height 1.
Dims WithHeight(const Dims& sizes) {
  Dims with = sizes;
  with.insert(with.begin() + 1, 1);
  return with;
}

Dims WeightWithHeight(const Dims& sizes) {
  Dims with = sizes;
  with.insert(with.begin(), 1);
  return with;
}

struct Window {
  Dims kernel, stride, dilation, pads;  // pads: low and high per dimension; outermost first
};

Window ConvWindow(const ir::Node& node, const Dims& weight) {
  const Dims kernel(weight.begin(), weight.end() - 2);
  const Dims& stride = node.Ints(AttrKey::kStride);
  const Dims& dilation = node.Ints(AttrKey::kDilation);
  const Dims& pads = node.Ints(AttrKey::kPads);
  if (kernel.size() > 1) return {kernel, stride, dilation, pads};
  return {{1, kernel[0]}, {1, stride[0]}, {1, dilation[0]}, {0, 0, pads[0], pads[1]}};
}

synConvolutionParams ConvParams2d(const Window& window, int64_t groups) {
  synConvolutionParams params = {};
  params.kH = static_cast<uint32_t>(window.kernel[0]);
  params.kW = static_cast<uint32_t>(window.kernel[1]);
  params.dH = static_cast<uint32_t>(window.stride[0]);
  params.dW = static_cast<uint32_t>(window.stride[1]);
  params.padT = static_cast<int32_t>(window.pads[0]);
  params.padB = static_cast<int32_t>(window.pads[1]);
  params.padL = static_cast<int32_t>(window.pads[2]);
  params.padR = static_cast<int32_t>(window.pads[3]);
  params.dilH = static_cast<uint32_t>(window.dilation[0]);
  params.dilW = static_cast<uint32_t>(window.dilation[1]);
  params.nGroups = static_cast<uint32_t>(groups);
  return params;
}

synConvolution3DParams ConvParams3d(const Window& window, int64_t groups) {
  synConvolution3DParams params = {};
  for (int i = 0; i < 3; ++i) {  // width, height, depth
    const int d = 2 - i;
    params.kernel[i] = static_cast<uint32_t>(window.kernel[d]);
    params.stride[i] = static_cast<uint32_t>(window.stride[d]);
    params.dilation[i] = static_cast<uint32_t>(window.dilation[d]);
    params.padding[2 * i] = static_cast<int32_t>(window.pads[2 * d]);
    params.padding[2 * i + 1] = static_cast<int32_t>(window.pads[2 * d + 1]);
  }
  params.nGroups = static_cast<uint32_t>(groups);
  return params;
}

void LowerMatmul(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& out = at.out[0];
  if (!at.has(0) || !at.has(1)) {  // no inner elements: an empty sum
    graph.Broadcast(graph.Scalar(out.dtype, 0), out);
    return;
  }
  Tensor a = at.in[0];
  Tensor b = at.in[1];
  const synGEMMParams params{
      .transpose_a = static_cast<uint8_t>(at.node.Bool(AttrKey::kTransposeA)),
      .transpose_b = static_cast<uint8_t>(at.node.Bool(AttrKey::kTransposeB))};
  if (out.rank() <= kMaxKernelRank) {
    const bool plain = a.rank() == 2 && b.rank() == 2;
    graph.Node(plain ? "gemm" : "batch_gemm", {a, b}, at.out, Params(params));
    return;
  }
  const std::vector<Dims> batch =
      MergeBroadcastDims({BatchOf(out.sizes), BatchOf(a.sizes), BatchOf(b.sizes)});
  a = graph.Reshaped(a, WithMatrix(batch[1], a.sizes));
  b = graph.Reshaped(b, WithMatrix(batch[2], b.sizes));
  const Tensor product = graph.Intermediate(out.dtype, WithMatrix(batch[0], out.sizes));
  graph.Node("batch_gemm", {a, b}, {product}, Params(params));
  graph.Reshape(product, out);
}

void LowerMatmulGrouped(const NodeLowering& at) {
  const synEmulatorGroupedMatmulParams params{.innerGroups = at.node.Bool(AttrKey::kInner)};
  at.graph.TypedNode(ir::Traits(at.node.op).guid, at.out[0].dtype, at.in, at.out, Params(params));
}

void LowerMatmulQuantized(const NodeLowering& at) {
  at.graph.TypedNode(ir::Traits(at.node.op).guid, at.out[0].dtype, at.in, at.out);
}

struct ConvGuids {
  const char* flat;    // guid for images
  const char* volume;  // guid for three spatial dimensions
};

ConvGuids GuidsOf(OpKind op) {
  if (op == OpKind::kConvTranspose) return {"dedx", "dedx3d"};
  if (op == OpKind::kConvWeightGradient) return {"dedw", "dedw3d"};
  return {"spatial_convolution", "spatial_convolution3d"};
}

// Lowers convolution, transposed convolution (by the node for the gradient of the input), and the
// gradient of the weight.
void LowerConv(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const bool of_weight = at.node.op == OpKind::kConvWeightGradient;
  const Tensor& weight = of_weight ? at.out[0] : at.in[1];
  const Window window = ConvWindow(at.node, weight.sizes);
  const int64_t groups = at.node.Int(AttrKey::kGroups);
  const ConvGuids guids = GuidsOf(at.node.op);
  if (at.in[0].rank() == 5) {
    graph.Node(guids.volume, {at.in[0], at.in[1]}, at.out, Params(ConvParams3d(window, groups)));
    return;
  }
  const synConvolutionParams params = ConvParams2d(window, groups);
  if (at.in[0].rank() == 4) {
    graph.Node(guids.flat, {at.in[0], at.in[1]}, at.out, Params(params));
    return;
  }
  const auto tall = [](const Dims& sizes, bool is_weight) {
    return is_weight ? WeightWithHeight(sizes) : WithHeight(sizes);
  };
  const Tensor first = graph.Reshaped(at.in[0], WithHeight(at.in[0].sizes));
  const Tensor second = graph.Reshaped(at.in[1], tall(at.in[1].sizes, !of_weight));
  const Tensor y = graph.Intermediate(at.out[0].dtype, tall(at.out[0].sizes, of_weight));
  graph.Node(guids.flat, {first, second}, {y}, Params(params));
  graph.Reshape(y, at.out[0]);
}

ZeroedParams<ns_Sdpa_ParamsV3> SdpaParams(const NodeLowering& at, bool is_inference) {
  ZeroedParams<ns_Sdpa_ParamsV3> params;
  params->scale = static_cast<float>(at.node.Float(AttrKey::kScale));
  params->is_causal = at.node.Bool(AttrKey::kCausal) ? 1 : 0;
  params->dropout.disableMaskOut = 1;
  params->is_inference = is_inference ? 1 : 0;
  return params;
}

// In grouped-query attention the number of key and value heads divides the number of query heads;
// the node repeats them itself.
void LowerSdpa(const NodeLowering& at) {
  const auto params = SdpaParams(at, true);
  at.graph.TypedNode("sdpa_recomp_fwd", at.in[0].dtype, at.in, at.out, Params(params));
}

// The node gives the maximum of a row and 1 / the sum of its powers.
void LowerSdpaLogsumexp(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& logsumexp = at.out[1];
  const Tensor maximum = graph.Intermediate(logsumexp.dtype, logsumexp.sizes);
  const Tensor inverse = graph.Intermediate(logsumexp.dtype, logsumexp.sizes);
  const Tensor log = graph.Intermediate(logsumexp.dtype, logsumexp.sizes);
  const auto params = SdpaParams(at, false);
  graph.TypedNode("sdpa_recomp_fwd", at.in[0].dtype, at.in, {at.out[0], maximum, inverse},
                  Params(params));
  graph.TypedNode("log_fwd", logsumexp.dtype, {inverse}, {log});
  graph.TypedNode("sub_fwd", logsumexp.dtype, {maximum, log}, {logsumexp});
}

// exp(score - logsumexp) is exp(score - maximum) / sum.
void LowerSdpaBackward(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& logsumexp = at.in[5];
  const Tensor one = graph.Expanded(graph.Scalar(logsumexp.dtype, 1), logsumexp.sizes);
  const Tensor mask = at.has(6) ? at.in[6] : Tensor{};
  const auto params = SdpaParams(at, false);
  graph.TypedNode(
      "sdpa_recomp_bwd", at.in[1].dtype,
      {at.in[0], at.in[1], at.in[2], at.in[3], mask, logsumexp, one, Tensor{}, at.in[4]}, at.out,
      Params(params));
}

struct SdpaTrainParams {
  explicit SdpaTrainParams(const NodeLowering& at) : intel(SdpaParams(at, false)) {
    const auto base = static_cast<uint64_t>(at.node.Int(AttrKey::kBase));
    philox.scale = static_cast<float>(at.node.Float(AttrKey::kScale));
    philox.isCausal = at.node.Bool(AttrKey::kCausal) ? 1 : 0;
    philox.keep = static_cast<float>(at.node.Float(AttrKey::kKeep));
    philox.baseLow = static_cast<uint32_t>(base);
    philox.baseHigh = static_cast<uint32_t>(base >> 32);
  }

  ZeroedParams<ns_Sdpa_ParamsV3> intel;
  synEmulatorSdpaParams philox = {};
};

// Weights are dropped by this project's generator, which Intel's nodes cannot express.
void LowerSdpaTrain(const NodeLowering& at) {
  const SdpaTrainParams params(at);
  const DType dtype = at.in[0].dtype;
  const Tensor mask = at.has(3) ? at.in[3] : Tensor{};
  if (at.has(4)) {
    at.graph.TypedNode("sdpa_philox_fwd", dtype,
                       {at.in[0], at.in[1], at.in[2], mask, at.in[4], at.in[5]}, at.out,
                       Params(params.philox));
  } else {
    at.graph.TypedNode("sdpa_recomp_fwd", dtype, {at.in[0], at.in[1], at.in[2], mask}, at.out,
                       Params(params.intel));
  }
}

void LowerSdpaTrainBackward(const NodeLowering& at) {
  const SdpaTrainParams params(at);
  const DType dtype = at.in[1].dtype;
  std::vector<Tensor> in = {at.in[0], at.in[1], at.in[2], at.in[3], Tensor{},
                            at.in[5], at.in[6], Tensor{}, at.in[4]};
  if (at.has(7)) in[4] = at.in[7];
  if (at.has(8)) {
    in[7] = at.in[8];
    in.push_back(at.in[9]);
    at.graph.TypedNode("sdpa_philox_bwd", dtype, in, at.out, Params(params.philox));
  } else {
    at.graph.TypedNode("sdpa_recomp_bwd", dtype, in, at.out, Params(params.intel));
  }
}

const char* MatmulBatch(const ir::Node& node) {
  if (node.type().rank() <= kMaxKernelRank) return nullptr;
  std::vector<ir::Dims> batch;
  for (const ir::Dims& sizes :
       {node.type().sizes, node.operands[0]->type.sizes, node.operands[1]->type.sizes}) {
    batch.emplace_back(sizes.begin(), sizes.end() - 2);
  }
  return MergeBroadcastDims(batch)[0].size() <= kMaxKernelRank - 2
             ? nullptr
             : "more than 3 batch dimensions that cannot be merged";
}

constexpr LoweringRule kContractRules[] = {
    {OpKind::kConv, LowerConv, LoweredTypes::kFloat, AnyShape},
    {OpKind::kConvTranspose, LowerConv, LoweredTypes::kFloat, AnyShape},
    {OpKind::kConvWeightGradient, LowerConv, LoweredTypes::kFloat, AnyShape},
    {OpKind::kMatmul, LowerMatmul, LoweredTypes::kFloat, MatmulBatch},
    {OpKind::kMatmulGrouped, LowerMatmulGrouped, LoweredTypes::kArithmetic, AnyShape},
    {OpKind::kMatmulQuantized, LowerMatmulQuantized, LoweredTypes::kArithmetic, AnyShape},
    {OpKind::kSdpa, LowerSdpa, LoweredTypes::kFloat, AnyShape},
    {OpKind::kSdpaBackward, LowerSdpaBackward, LoweredTypes::kFloat, AnyShape},
    {OpKind::kSdpaLogsumexp, LowerSdpaLogsumexp, LoweredTypes::kFloat, AnyShape},
    {OpKind::kSdpaTrain, LowerSdpaTrain, LoweredTypes::kArithmetic, AnyShape},
    {OpKind::kSdpaTrainBackward, LowerSdpaTrainBackward, LoweredTypes::kArithmetic, AnyShape},
};

}  // namespace

std::span<const LoweringRule> ContractRules() { return kContractRules; }

}  // namespace hpu::compiler
