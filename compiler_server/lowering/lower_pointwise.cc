// Lowers elementwise ops. The GUID has its base from the op table and its suffix from the operands'
// type; the parameters are in the table below. Operands broadcast inside the node (size-1
// dimensions, missing leading dimensions).
#include <algorithm>

#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::OpKind;

template <typename T>
Bytes AsBytes(const T& params) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&params);
  return Bytes(begin, begin + sizeof(T));
}

struct ParamsRow {
  OpKind op;
  Bytes (*make)(const ir::Node& node);
};

constexpr ParamsRow kParams[] = {
    {OpKind::kElu,
     [](const ir::Node& node) {
       return AsBytes(
           ns_EluKernel_Params{.alpha = static_cast<float>(node.Float(AttrKey::kAlpha))});
     }},
    {OpKind::kGelu,
     [](const ir::Node&) { return AsBytes(ns_GeluKernel_Params{.approximation = 0}); }},
    {OpKind::kGeluTanh,
     [](const ir::Node&) { return AsBytes(ns_GeluKernel_Params{.approximation = 1}); }},
    {OpKind::kHardSigmoid,
     [](const ir::Node&) {
       return AsBytes(ns_HardSigmoidKernel_Params{.alpha = 1.0F / 6, .beta = 0.5F});
     }},
    {OpKind::kIsinf,
     [](const ir::Node&) {
       return AsBytes(ns_IsInfKernel_Params{.detect_negative = 1, .detect_positive = 1});
     }},
    {OpKind::kLeakyRelu,
     [](const ir::Node& node) {
       return AsBytes(ns_LeakyReluKernel_Params{.alpha = node.Float(AttrKey::kAlpha)});
     }},
    {OpKind::kRound,
     [](const ir::Node&) {
       return AsBytes(ns_RoundKernel_Params{.roundMode = NS_ROUND_HALF_TO_EVEN});
     }},
    {OpKind::kShiftLeft,
     [](const ir::Node&) { return AsBytes(ns_BitShiftKernel_Params{NS_SHIFT_LEFT}); }},
    {OpKind::kShiftRight,
     [](const ir::Node&) { return AsBytes(ns_BitShiftKernel_Params{NS_SHIFT_RIGHT}); }},
    {OpKind::kSoftplus,
     [](const ir::Node& node) {
       return AsBytes(
           ns_Softplus_Params{.beta = static_cast<float>(node.Float(AttrKey::kBeta)),
                              .threshold = static_cast<float>(node.Float(AttrKey::kThreshold))});
     }},
};

Bytes ParamsOf(const ir::Node& node) {
  for (const ParamsRow& row : kParams) {
    if (row.op == node.op) return row.make(node);
  }
  return {};
}

// Emits the kernel from `in` to `result`. Merges dimensions if it cannot take as many.
void Emit(const NodeLowering& at, std::vector<Tensor> in, const Tensor& result) {
  SynGraph& graph = at.graph;
  const Bytes bytes = ParamsOf(at.node);
  Tensor out = result;
  const bool merges = out.rank() > kMaxKernelRank;
  if (merges) {
    std::vector<ir::Dims> sizes{out.sizes};
    for (const Tensor& tensor : in) sizes.push_back(tensor.sizes);
    const std::vector<ir::Dims> merged = MergeBroadcastDims(sizes);
    for (size_t i = 0; i < in.size(); ++i) in[i] = graph.Reshaped(in[i], merged[i + 1]);
    out = graph.Intermediate(out.dtype, merged[0]);
  }
  Params params;
  params.data = bytes.empty() ? nullptr : bytes.data();
  params.size = static_cast<unsigned>(bytes.size());
  std::vector<Tensor> outputs{out};
  if (at.node.op == OpKind::kGelu || at.node.op == OpKind::kGeluTanh) {
    // The second output of the kernel (its tanh) is declared although nothing reads it.
    outputs.push_back(graph.Intermediate(out.dtype, out.sizes));
  }
  graph.TypedNode(ir::Traits(at.node.op).guid, in.back().dtype, in, outputs, params);
  if (merges) graph.Reshape(out, result);
}

// In the IR, numbers in f32 may be operands beside narrower values (docs/ir.md). A kernel has one
// type, so it then calculates in f32, and the result is rounded once.
void LowerPointwise(const NodeLowering& at) {
  const auto is = [](bool (*test)(DType)) {
    return [test](const Tensor& tensor) { return test(tensor.dtype); };
  };
  const bool mixed = std::ranges::any_of(at.in, is(ir::IsNarrowFloat)) &&
                     std::ranges::any_of(at.in, is([](DType t) { return t == DType::kF32; }));
  if (!mixed) return Emit(at, at.in, at.out[0]);
  const auto widened = [&](const Tensor& tensor) {
    if (!ir::IsNarrowFloat(tensor.dtype)) return tensor;
    const Tensor wide = at.graph.Intermediate(DType::kF32, tensor.sizes);
    at.graph.Cast(tensor, wide);
    return wide;
  };
  std::vector<Tensor> in;
  for (const Tensor& tensor : at.in) in.push_back(widened(tensor));
  const Tensor wide = at.graph.Intermediate(DType::kF32, at.out[0].sizes);
  Emit(at, std::move(in), wide);
  at.graph.CastResult(wide, at.out[0]);
}

void LowerCast(const NodeLowering& at) { at.graph.Cast(at.in[0], at.out[0]); }

constexpr LoweringRule kPointwiseRules[] = {
    {OpKind::kCast, LowerCast, LoweredTypes::kConverted, MergedRank5},
};

constexpr LoweringRule kElementwise = {OpKind::kAten, LowerPointwise, LoweredTypes::kArithmetic,
                                       MergedRank5};

}  // namespace

std::span<const LoweringRule> PointwiseRules() { return kPointwiseRules; }

const LoweringRule& ElementwiseRule() { return kElementwise; }

}  // namespace hpu::compiler
