// Lowers pooling and resizing. Their nodes take images as "WHCN", and the IR has them
// channels-last, so each node is between two transposes, which cost nothing where the compiler
// chooses the order in memory.
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

const Dims kToChannelsFirst = {0, 3, 1, 2};
const Dims kToChannelsLast = {0, 2, 3, 1};

// Emits the node of a window op between its transposes. `more` are the types of further outputs.
void EmitWindow(const NodeLowering& at, std::string_view guid, Params params,
                std::vector<DType> more = {}) {
  SynGraph& graph = at.graph;
  const Dims& sizes = at.out[0].sizes;
  const Dims first = {sizes[0], sizes[3], sizes[1], sizes[2]};
  const Layouts layouts{{"WHCN"}, std::vector<const char*>(1 + more.size(), "WHCN")};
  std::vector<Tensor> outputs{graph.Intermediate(at.out[0].dtype, first)};
  for (DType dtype : more) outputs.push_back(graph.Intermediate(dtype, first));
  const DType dtype = at.in[0].dtype;
  graph.Node(std::string(guid).append("_").append(GuidSuffix(dtype)),
             {graph.Transposed(at.in[0], kToChannelsFirst)}, outputs, params, &layouts);
  graph.Transpose(outputs[0], at.out[0], kToChannelsLast);
}

// Emits the place of each maximum, which is the second output of the node.
void EmitMaxPoolIndex(const NodeLowering& at, Params params) {
  SynGraph& graph = at.graph;
  const Dims& sizes = at.out[0].sizes;
  const Dims first = {sizes[0], sizes[3], sizes[1], sizes[2]};
  const Layouts layouts{{"WHCN"}, {"WHCN", "WHCN"}};
  const DType dtype = at.in[0].dtype;
  const Tensor index = graph.Intermediate(DType::kI32, first);
  graph.Node(std::string("pt_maxpool_2d_fwd_").append(GuidSuffix(dtype)),
             {graph.Transposed(at.in[0], kToChannelsFirst)},
             {graph.Intermediate(dtype, first), index}, params, &layouts);
  graph.Transpose(index, at.out[0], kToChannelsLast);
}

// The node takes the gradient, x and the places as flat positions.
void EmitMaxPoolGradient(const NodeLowering& at, Params params) {
  SynGraph& graph = at.graph;
  const Dims& sizes = at.out[0].sizes;
  const Dims first = {sizes[0], sizes[3], sizes[1], sizes[2]};
  const Layouts layouts{{"WHCN", "WHCN", "WHCN"}, {"WHCN"}};
  const DType dtype = at.out[0].dtype;
  const Tensor result = graph.Intermediate(dtype, first);
  graph.Node(
      std::string("pt_maxpool_2d_bwd_").append(GuidSuffix(dtype)),
      {graph.Transposed(at.in[0], kToChannelsFirst), graph.Transposed(at.in[2], kToChannelsFirst),
       graph.Transposed(at.in[1], kToChannelsFirst)},
      {result}, params, &layouts);
  graph.Transpose(result, at.out[0], kToChannelsLast);
}

// Fills the fields that the 2-D pooling structs share; every struct begins with
// ns_SpatialReduction_Params.
template <typename T>
void FillWindow(const ir::Node& node, T* params) {
  const Dims& kernel = node.Ints(AttrKey::kKernel);
  const Dims& stride = node.Ints(AttrKey::kStride);
  const Dims& pads = node.Ints(AttrKey::kPads);
  params->pad_h_begin = static_cast<int32_t>(pads[0]);
  params->pad_h_end = static_cast<int32_t>(pads[1]);
  params->pad_w_begin = static_cast<int32_t>(pads[2]);
  params->pad_w_end = static_cast<int32_t>(pads[3]);
  params->kernel_h = static_cast<int32_t>(kernel[0]);
  params->kernel_w = static_cast<int32_t>(kernel[1]);
  params->stride_h = static_cast<int32_t>(stride[0]);
  params->stride_w = static_cast<int32_t>(stride[1]);
  params->dilation_h = 1;
  params->dilation_w = 1;
  params->pooling_convention =
      node.Bool(AttrKey::kCeil) ? NS_POOLING_FULL_PYTORCH : NS_POOLING_VALID;
}

void LowerPool(const NodeLowering& at) {
  if (at.node.op != OpKind::kAvgPool) {
    ns_SpatialReduction_Params params = {};
    FillWindow(at.node, &params);
    params.dilation_h = static_cast<int32_t>(at.node.Ints(AttrKey::kDilation)[0]);
    params.dilation_w = static_cast<int32_t>(at.node.Ints(AttrKey::kDilation)[1]);
    if (at.node.op == OpKind::kMaxPoolIndex) return EmitMaxPoolIndex(at, Params(params));
    if (at.node.op == OpKind::kMaxPoolGradient) return EmitMaxPoolGradient(at, Params(params));
    // The kernel also writes the place of each maximum.
    EmitWindow(at, "pt_maxpool_2d_fwd", Params(params), {DType::kI32});
    return;
  }
  ns_AveragePoolingWithDivisorOverride_Params params = {};
  FillWindow(at.node, &params);
  params.includePadding = at.node.Bool(AttrKey::kCountPadding) ? 1 : 0;
  params.divisorOverride = static_cast<int32_t>(at.node.Int(AttrKey::kDivisor));
  EmitWindow(at, "avg_pool_2d_fwd", Params(params));
}

void LowerAdaptivePool(const NodeLowering& at) {
  const Dims& sizes = at.out[0].sizes;
  const ns_AdaptiveAvgPool_Params params{.outputWidth = static_cast<int32_t>(sizes[2]),
                                         .outputHeight = static_cast<int32_t>(sizes[1])};
  EmitWindow(at, "adaptive_avg_pool_2d_fwd", Params(params));
}

void LowerResize(const NodeLowering& at) {
  const std::string& mode = at.node.Text(AttrKey::kMode);
  ZeroedParams<ns_ResizeKernel_Params> params;
  params->size1 = static_cast<int32_t>(at.out[0].sizes[2]);
  params->size2 = static_cast<int32_t>(at.out[0].sizes[1]);
  params->size3 = 1;
  if (mode == "linear") {
    params->mode = NS_RESIZE_LINEAR;
    params->coordTransMode = at.node.Bool(AttrKey::kAlignCorners) ? NS_RESIZE_COORD_ALIGN_CORNERS
                                                                  : NS_RESIZE_COORD_HALF_PIXEL;
  } else {
    params->mode = NS_RESIZE_NEAREST;
    params->coordTransMode = NS_RESIZE_COORD_ASYMMETRIC;
    params->nearestMode =
        mode == "nearest_exact" ? NS_RESIZE_NEAREST_ROUND_DEFAULT : NS_RESIZE_NEAREST_FLOOR;
  }
  EmitWindow(at, "resize_fwd", Params(params));
}

const char* Window2d(const ir::Node& node) {
  return node.operands[0]->type.rank() == 4 ? nullptr : "only two spatial dimensions are supported";
}

constexpr LoweringRule kWindowRules[] = {
    {OpKind::kAdaptiveAvgPool, LowerAdaptivePool, LoweredTypes::kFloat, Window2d},
    {OpKind::kAvgPool, LowerPool, LoweredTypes::kFloat, Window2d},
    {OpKind::kMaxPool, LowerPool, LoweredTypes::kFloat, Window2d},
    {OpKind::kMaxPoolGradient, LowerPool, LoweredTypes::kFloat, Window2d},
    {OpKind::kMaxPoolIndex, LowerPool, LoweredTypes::kFloat, Window2d},
    {OpKind::kResize, LowerResize, LoweredTypes::kFloat, Window2d},
};

}  // namespace

std::span<const LoweringRule> WindowRules() { return kWindowRules; }

}  // namespace hpu::compiler
