// Lowers reads and writes by index.
#include <algorithm>

#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// The result has the dimensions of the index in place of `dim`. Indices are flattened, because the
// kernel's rank is limited and the elements are the same.
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

// Whether index and source have the sizes of x in all dimensions but `dim`, so that the dimensions
// around it can be merged.
bool MergesAroundDim(const ir::Node& node) {
  const Dims& sizes = node.operands[0]->type.sizes;
  const auto dim = static_cast<size_t>(node.Int(AttrKey::kDim));
  return std::all_of(node.operands.begin(), node.operands.end(), [&](const ir::Value* operand) {
    if (operand == nullptr) return true;
    Dims other = operand->type.sizes;
    if (other.size() != sizes.size()) return false;
    other[dim] = sizes[dim];
    return other == sizes;
  });
}

const char* Rank5AroundDim(const ir::Node& node) {
  return Rank5(node) == nullptr || MergesAroundDim(node)
             ? nullptr
             : "more than 5 dimensions that cannot be merged";
}

// Emits a node with an axis, whose parameters are params(dim, rank).
template <typename ParamsOf>
void EmitAlongDim(const NodeLowering& at, const char* guid, const ParamsOf& params) {
  const int64_t dim = at.node.Int(AttrKey::kDim);
  const Tensor& x = at.in[0];
  if (x.rank() <= kMaxKernelRank) {
    at.graph.TypedNode(guid, x.dtype, at.in, at.out, Params(params(dim, x.rank())));
    return;
  }
  std::vector<Tensor> in;
  for (const Tensor& tensor : at.in) {
    in.push_back(at.graph.Reshaped(tensor, AroundDim(tensor.sizes, dim)));
  }
  const Tensor result = at.graph.Intermediate(x.dtype, AroundDim(at.out[0].sizes, dim));
  at.graph.TypedNode(guid, x.dtype, in, {result}, Params(params(1, result.rank())));
  at.graph.Reshape(result, at.out[0]);
}

void LowerGatherElements(const NodeLowering& at) {
  EmitAlongDim(at, "gather_elements_fwd", [](int64_t dim, int rank) {
    return ns_GatherElementsKernel_Params{.axis = FcdAxis(dim, rank)};
  });
}

void LowerScatter(const NodeLowering& at) {
  if (!at.has(1)) {  // nothing to write
    at.graph.Copy(at.in[0], at.out[0]);
    return;
  }
  EmitAlongDim(at, "scatter_fwd", [](int64_t dim, int rank) {
    return ns_ScatterKernel_Params{.axis = FcdAxis(dim, rank)};
  });
}

template <ns_ScatterReduceMode kMode>
void LowerScatterReduce(const NodeLowering& at) {
  if (!at.has(1)) {  // nothing to join
    at.graph.Copy(at.in[0], at.out[0]);
    return;
  }
  EmitAlongDim(at, "scatter_reduce_fwd", [](int64_t dim, int) {
    ZeroedParams<ns_ScatterReduceKernel_Params> params;
    params->dim = static_cast<int32_t>(dim);
    params->include_self = 1;
    params->mode = kMode;
    return params;
  });
}

constexpr LoweringRule kIndexRules[] = {
    {OpKind::kGather, LowerGather, LoweredTypes::kMoved, AnyShape},
    {OpKind::kGatherElements, LowerGatherElements, LoweredTypes::kMoved, Rank5AroundDim},
    {OpKind::kScatter, LowerScatter, LoweredTypes::kMoved, Rank5AroundDim},
    {OpKind::kScatterAdd, LowerScatterReduce<NS_SCATTER_REDUCE_SUM>, LoweredTypes::kArithmetic,
     Rank5AroundDim},
    {OpKind::kScatterMax, LowerScatterReduce<NS_SCATTER_REDUCE_AMAX>, LoweredTypes::kArithmetic,
     Rank5AroundDim},
    {OpKind::kScatterMin, LowerScatterReduce<NS_SCATTER_REDUCE_AMIN>, LoweredTypes::kArithmetic,
     Rank5AroundDim},
    {OpKind::kScatterMul, LowerScatterReduce<NS_SCATTER_REDUCE_PROD>, LoweredTypes::kArithmetic,
     Rank5AroundDim},
};

}  // namespace

std::span<const LoweringRule> IndexRules() { return kIndexRules; }

}  // namespace hpu::compiler
