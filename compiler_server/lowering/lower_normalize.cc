// Lowers softmax and normalisation over the trailing dimensions.
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// The rows of a normalisation, each of `features` trailing elements.
struct Rows {
  int64_t count = 1;
  int64_t features = 1;
};

Rows RowsOf(const NodeLowering& at) {
  const Tensor& x = at.in[0];
  const auto first = static_cast<size_t>(x.rank() - at.node.Int(AttrKey::kAxes));
  return {Product(x.sizes, 0, first), Product(x.sizes, first, x.sizes.size())};
}

// Returns operand `index` as a vector of the features, or `value` everywhere if it is absent.
Tensor FeatureVector(const NodeLowering& at, size_t index, int64_t features, double value) {
  if (at.has(index)) return at.graph.Reshaped(at.in[index], {features});
  return at.graph.Expanded(at.graph.Scalar(at.in[0].dtype, value), {features});
}

void LowerSoftmax(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  const int64_t dim = at.node.Int(AttrKey::kDim);
  const std::string_view guid = ir::Traits(at.node.op).guid;
  if (x.rank() <= kMaxKernelRank) {
    const ns_Softmax_Params params{.dim = FcdAxis(dim, x.rank())};
    graph.TypedNode(guid, x.dtype, {x}, at.out, Params(params));
    return;
  }
  const Dims sizes = AroundDim(x.sizes, dim);
  const ns_Softmax_Params params{.dim = 1};
  const Tensor result = graph.Intermediate(x.dtype, sizes);
  graph.TypedNode(guid, x.dtype, {graph.Reshaped(x, sizes)}, {result}, Params(params));
  graph.Reshape(result, at.out[0]);
}

// layer_norm_fwd expects x as [1, 1, rows, features] and bias before weight, and writes mean and
// 1/sigma of every row in f32.
void LowerLayerNorm(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Rows rows = RowsOf(at);
  const Dims sizes = {1, 1, rows.count, rows.features};
  const Tensor bias = FeatureVector(at, 2, rows.features, 0);
  const Tensor weight = FeatureVector(at, 1, rows.features, 1);
  const Tensor mean = graph.Intermediate(DType::kF32, {1, 1, rows.count, 1});
  const Tensor rstd = graph.Intermediate(DType::kF32, {1, 1, rows.count, 1});
  ZeroedParams<ns_LayerNormKernel_Params> params;
  params->epsValid = 1;
  params->eps = static_cast<float>(at.node.Float(AttrKey::kEps));
  const Tensor y = graph.Intermediate(at.out[0].dtype, sizes);
  graph.TypedNode("layer_norm_fwd", at.in[0].dtype, {graph.Reshaped(at.in[0], sizes), bias, weight},
                  {y, mean, rstd}, Params(params));
  graph.Reshape(y, at.out[0]);
}

void LowerRmsNorm(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Rows rows = RowsOf(at);
  const Dims sizes = {rows.count, rows.features};
  const Tensor weight = FeatureVector(at, 1, rows.features, 1);
  const Tensor inverse = graph.Intermediate(DType::kF32, {rows.count, 1});
  ZeroedParams<ns_LayerNormKernel_ParamsRmsNorm> params;
  params->epsValid = 1;
  params->eps = static_cast<float>(at.node.Float(AttrKey::kEps));
  const Tensor x = graph.Reshaped(at.in[0], sizes);
  const bool in_place = at.out[0].sizes == sizes;
  const Tensor y = in_place ? at.out[0] : graph.Intermediate(at.out[0].dtype, sizes);
  graph.TypedNode("rms_norm_ex_fwd", x.dtype, {x, weight}, {y, inverse}, Params(params));
  if (!in_place) graph.Reshape(y, at.out[0]);
}

constexpr LoweringRule kNormalizeRules[] = {
    {OpKind::kLayerNorm, LowerLayerNorm, LoweredTypes::kFloat, AnyShape},
    {OpKind::kLogSoftmax, LowerSoftmax, LoweredTypes::kFloat, AnyShape},
    {OpKind::kRmsNorm, LowerRmsNorm, LoweredTypes::kFloat, AnyShape},
    {OpKind::kSoftmax, LowerSoftmax, LoweredTypes::kFloat, AnyShape},
};

}  // namespace

std::span<const LoweringRule> NormalizeRules() { return kNormalizeRules; }

}  // namespace hpu::compiler
