// Reads and writes by index.
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// The result has the index's dimensions in place of `dim`. Indices are flattened: the kernel's rank
// is limited and the elements are the same.
void LowerGather(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  const int64_t count = at.in[1].elements();
  const Dims table_sizes = AroundDim(x.sizes, at.node.Int(AttrKey::kDim));
  const Dims result_sizes = {table_sizes[0], count, table_sizes[2]};
  const ns_GatherKernel_Params params{.axis = 1};
  const bool in_place = at.out[0].sizes == result_sizes;
  const Tensor result = in_place ? at.out[0] : graph.Intermediate(x.dtype, result_sizes);
  graph.TypedNode("gather_fwd", x.dtype,
                  {graph.Reshaped(x, table_sizes), graph.Reshaped(at.in[1], {count})}, {result},
                  Params(params));
  if (!in_place) graph.Reshape(result, at.out[0]);
}

void LowerGatherElements(const NodeLowering& at) {
  const ns_GatherElementsKernel_Params params{
      .axis = FcdAxis(at.node.Int(AttrKey::kDim), at.in[0].rank())};
  at.graph.TypedNode("gather_elements_fwd", at.in[0].dtype, at.in, at.out, Params(params));
}

void LowerScatter(const NodeLowering& at) {
  if (!at.has(1)) {  // nothing to write
    at.graph.Copy(at.in[0], at.out[0]);
    return;
  }
  const ns_ScatterKernel_Params params{.axis =
                                           FcdAxis(at.node.Int(AttrKey::kDim), at.in[0].rank())};
  at.graph.TypedNode("scatter_fwd", at.in[0].dtype, at.in, at.out, Params(params));
}

template <ns_ScatterReduceMode kMode>
void LowerScatterReduce(const NodeLowering& at) {
  if (!at.has(1)) {  // nothing to join
    at.graph.Copy(at.in[0], at.out[0]);
    return;
  }
  ZeroedParams<ns_ScatterReduceKernel_Params> params;
  params->dim = static_cast<int32_t>(at.node.Int(AttrKey::kDim));
  params->include_self = 1;
  params->mode = kMode;
  at.graph.TypedNode("scatter_reduce_fwd", at.in[0].dtype, at.in, at.out, Params(params));
}

constexpr LoweringRule kRules[] = {
    {OpKind::kGather, LowerGather, LoweredTypes::kMoved, AnyShape},
    {OpKind::kGatherElements, LowerGatherElements, LoweredTypes::kMoved, Rank5},
    {OpKind::kScatter, LowerScatter, LoweredTypes::kMoved, Rank5},
    {OpKind::kScatterAdd, LowerScatterReduce<NS_SCATTER_REDUCE_SUM>, LoweredTypes::kArithmetic,
     Rank5},
    {OpKind::kScatterMax, LowerScatterReduce<NS_SCATTER_REDUCE_AMAX>, LoweredTypes::kArithmetic,
     Rank5},
    {OpKind::kScatterMin, LowerScatterReduce<NS_SCATTER_REDUCE_AMIN>, LoweredTypes::kArithmetic,
     Rank5},
    {OpKind::kScatterMul, LowerScatterReduce<NS_SCATTER_REDUCE_PROD>, LoweredTypes::kArithmetic,
     Rank5},
};

}  // namespace

std::span<const LoweringRule> IndexRules() { return kRules; }

}  // namespace hpu::compiler
