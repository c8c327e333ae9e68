// Lowers reductions, scans and sorting.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// The operand with runs of neighbouring dimensions merged, each either all reduced or all kept.
struct Runs {
  Dims sizes;
  std::vector<bool> reduced;
};

std::vector<bool> ReducedDims(const ir::Node& node, int rank) {
  std::vector<bool> reduced(rank, false);
  for (int64_t d : node.Ints(AttrKey::kDims)) reduced[d] = true;
  return reduced;
}

Runs MergeRuns(const Dims& sizes, const std::vector<bool>& reduced) {
  Runs runs;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    if (!runs.sizes.empty() && runs.reduced.back() == reduced[d]) {
      runs.sizes.back() *= sizes[d];
    } else {
      runs.sizes.push_back(sizes[d]);
      runs.reduced.push_back(reduced[d]);
    }
  }
  return runs;
}

double EmptyReduction(ir::OpKind op) {
  switch (op) {
    case OpKind::kReduceProd:
      return 1;
    case OpKind::kReduceMean:
      return std::nan("");
    default:
      return 0;
  }
}

void LowerReduce(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  if (!at.has(0)) {  // a reduction over no elements; only these have a value then
    graph.Broadcast(graph.Scalar(at.out[0].dtype, EmptyReduction(at.node.op)), at.out[0]);
    return;
  }
  const Runs runs = MergeRuns(x.sizes, ReducedDims(at.node, x.rank()));
  ZeroedParams<ns_Reduction_ParamsV2> params;
  params->keepDim = 1;
  Dims kept;
  const int rank = static_cast<int>(runs.sizes.size());
  for (int d = 0; d < rank; ++d) {
    if (runs.reduced[d]) params->reductionDimensionMask |= 1U << FcdAxis(d, rank);
    kept.push_back(runs.reduced[d] ? 1 : runs.sizes[d]);
  }
  if (params->reductionDimensionMask == 0) {  // only dimensions of size 1
    graph.Reshape(x, at.out[0]);
    return;
  }
  const bool in_place = kept == at.out[0].sizes;
  const Tensor reduced = in_place ? at.out[0] : graph.Intermediate(at.out[0].dtype, kept);
  graph.TypedNode(ir::Traits(at.node.op).guid, x.dtype, {graph.Reshaped(x, runs.sizes)}, {reduced},
                  Params(params));
  if (!in_place) graph.Reshape(reduced, at.out[0]);
}

// On the device, positions along one dimension are numbers of 32 bits.
const char* PositionsIn32Bits(int64_t size) {
  return size > std::numeric_limits<int32_t>::max() ? "positions of 64 bits" : nullptr;
}
const char* ArgReducible(const ir::Node& node) {
  return PositionsIn32Bits(node.operands[0]->type.sizes[node.Ints(AttrKey::kDims)[0]]);
}

// Stores them as numbers of 64 bits. The cast is made in their own sizes, because a cast takes at
// most 5 dimensions.
void StorePositions(SynGraph& graph, const Tensor& positions, const Tensor& out) {
  const bool in_place = positions.sizes == out.sizes;
  const Tensor wide = in_place ? out : graph.Intermediate(out.dtype, positions.sizes);
  graph.Cast(positions, wide);
  if (!in_place) graph.Reshape(wide, out);
}

void LowerArgReduce(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  const Dims sizes = AroundDim(x.sizes, at.node.Ints(AttrKey::kDims)[0]);
  const ns_Reduction_Params params{.reductionDimension = 1};
  const Tensor index = graph.Intermediate(DType::kI32, {sizes[0], 1, sizes[2]});
  graph.TypedNode(ir::Traits(at.node.op).guid, x.dtype, {graph.Reshaped(x, sizes)}, {index},
                  Params(params));
  StorePositions(graph, index, at.out[0]);
}

void LowerScan(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  const Dims sizes = AroundDim(x.sizes, at.node.Int(AttrKey::kDim));
  // The parameters of cumulative sum and cumulative product have the same layout.
  const ns_CumSumKernel_Params params{.axis = 1, .exclusive = 0, .reverse = 0};
  const bool in_place = x.sizes == sizes;
  const Tensor result = in_place ? at.out[0] : graph.Intermediate(at.out[0].dtype, sizes);
  graph.TypedNode(ir::Traits(at.node.op).guid, x.dtype, {graph.Reshaped(x, sizes)}, {result},
                  Params(params));
  if (!in_place) graph.Reshape(result, at.out[0]);
}

void LowerRunningExtremum(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  const Dims sizes = AroundDim(x.sizes, at.node.Int(AttrKey::kDim));
  const ns_CumMaxKernel_Params params{.axis = 1};
  const bool in_place = x.sizes == sizes;
  const Tensor value = in_place ? at.out[0] : graph.Intermediate(at.out[0].dtype, sizes);
  const Tensor place = graph.Intermediate(DType::kI32, sizes);
  graph.TypedNode(ir::Traits(at.node.op).guid, x.dtype, {graph.Reshaped(x, sizes)}, {value, place},
                  Params(params));
  if (!in_place) graph.Reshape(value, at.out[0]);
  StorePositions(graph, place, at.out[1]);
}
const char* Scannable(const ir::Node& node) {
  return PositionsIn32Bits(node.type().sizes[node.Int(AttrKey::kDim)]);
}

void LowerTopk(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const Tensor& x = at.in[0];
  ZeroedParams<ns_TopkNodeV2_ParamsV4> params;
  params->bsw = static_cast<uint32_t>(at.node.Int(AttrKey::kK));
  params->axis = static_cast<uint32_t>(FcdAxis(at.node.Int(AttrKey::kDim), x.rank()));
  params->bottomK = at.node.Bool(AttrKey::kLargest) ? 0 : 1;
  params->isStable = 1;
  params->kType = NS_TOPK_K_NONE;
  graph.Node("topk", {x}, at.out, Params(params));
}

const char* Sortable(const ir::Node& node) {
  const char* reason = Rank5(node);
  return reason != nullptr
             ? reason
             : PositionsIn32Bits(node.operands[0]->type.sizes[node.Int(AttrKey::kDim)]);
}

const char* ReducibleRuns(const ir::Node& node) {
  int runs = 0;
  int last = -1;  // whether the previous dimension was reduced
  const ir::Dims& dims = node.Ints(AttrKey::kDims);
  const ir::Dims& sizes = node.operands[0]->type.sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const int reduced = std::count(dims.begin(), dims.end(), static_cast<int64_t>(d)) > 0 ? 1 : 0;
    if (reduced != last) ++runs;
    last = reduced;
  }
  return runs <= kMaxKernelRank ? nullptr : "more than 5 alternating dimensions";
}

constexpr LoweringRule kReduceRules[] = {
    {OpKind::kArgmax, LowerArgReduce, LoweredTypes::kArithmetic, ArgReducible},
    {OpKind::kArgmin, LowerArgReduce, LoweredTypes::kArithmetic, ArgReducible},
    {OpKind::kCummax, LowerRunningExtremum, LoweredTypes::kArithmetic, Scannable},
    {OpKind::kCummin, LowerRunningExtremum, LoweredTypes::kArithmetic, Scannable},
    {OpKind::kCumprod, LowerScan, LoweredTypes::kArithmetic, AnyShape},
    {OpKind::kCumsum, LowerScan, LoweredTypes::kArithmetic, AnyShape},
    {OpKind::kReduceMax, LowerReduce, LoweredTypes::kArithmetic, ReducibleRuns},
    {OpKind::kReduceMean, LowerReduce, LoweredTypes::kFloat, ReducibleRuns},
    {OpKind::kReduceMin, LowerReduce, LoweredTypes::kArithmetic, ReducibleRuns},
    {OpKind::kReduceProd, LowerReduce, LoweredTypes::kArithmetic, ReducibleRuns},
    {OpKind::kReduceSum, LowerReduce, LoweredTypes::kArithmetic, ReducibleRuns},
    {OpKind::kTopk, LowerTopk, LoweredTypes::kArithmetic, Sortable},
};

}  // namespace

std::span<const LoweringRule> ReduceRules() { return kReduceRules; }

}  // namespace hpu::compiler
