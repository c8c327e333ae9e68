// Pooling and resizing of channels-last images (FCD-first "CWHN").
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_kernel_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// Fields that the 2-D pooling structs share; every one begins with ns_SpatialReduction_Params.
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

}  // namespace

void LowerPool(const NodeLowering& at) {
  SynGraph& graph = at.graph;
  const DType dtype = at.in[0].dtype;
  if (at.node.op == OpKind::kMaxPool) {
    ns_SpatialReduction_Params params = {};
    FillWindow(at.node, &params);
    params.dilation_h = static_cast<int32_t>(at.node.Ints(AttrKey::kDilation)[0]);
    params.dilation_w = static_cast<int32_t>(at.node.Ints(AttrKey::kDilation)[1]);
    // The kernel also writes where each maximum was.
    const Tensor index = graph.Intermediate(DType::kI32, at.out[0].sizes);
    graph.TypedNode("pt_maxpool_2d_fwd", dtype, {at.in[0]}, {at.out[0], index}, Params(params));
    return;
  }
  ns_AveragePoolingWithDivisorOverride_Params params = {};
  FillWindow(at.node, &params);
  params.includePadding = at.node.Bool(AttrKey::kCountPadding) ? 1 : 0;
  params.divisorOverride = static_cast<int32_t>(at.node.Int(AttrKey::kDivisor));
  graph.TypedNode("avg_pool_2d_fwd", dtype, {at.in[0]}, at.out, Params(params));
}

void LowerAdaptivePool(const NodeLowering& at) {
  const Dims& sizes = at.out[0].sizes;
  const ns_AdaptiveAvgPool_Params params{.outputWidth = static_cast<int32_t>(sizes[2]),
                                         .outputHeight = static_cast<int32_t>(sizes[1])};
  at.graph.TypedNode("adaptive_avg_pool_2d_fwd", at.in[0].dtype, {at.in[0]}, at.out,
                     Params(params));
}

void LowerResize(const NodeLowering& at) {
  const std::string& mode = at.node.Text(AttrKey::kMode);
  ZeroedParams<ns_ResizeKernel_Params> params;
  params->size1 = static_cast<int32_t>(at.out[0].sizes[2]);
  params->size2 = static_cast<int32_t>(at.out[0].sizes[1]);
  params->size3 = 1;
  if (mode == "bilinear") {
    params->mode = NS_RESIZE_LINEAR;
    params->coordTransMode = at.node.Bool(AttrKey::kAlignCorners)
                                ? NS_RESIZE_COORD_ALIGN_CORNERS
                                : NS_RESIZE_COORD_PYTORCH_HALF_PIXEL;
  } else {
    params->mode = NS_RESIZE_NEAREST;
    params->coordTransMode = NS_RESIZE_COORD_ASYMMETRIC;
    params->nearestMode =
        mode == "nearest_exact" ? NS_RESIZE_NEAREST_ROUND_DEFAULT : NS_RESIZE_NEAREST_FLOOR;
  }
  at.graph.TypedNode("resize_fwd", at.in[0].dtype, {at.in[0]}, at.out, Params(params));
}

}  // namespace hpu::compiler
