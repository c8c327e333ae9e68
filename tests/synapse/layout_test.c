// The headers must be C11 too; compiling this file checks their layout assertions.
#include "synapse/include/hccl.h"
#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_emulator.h"
#include "synapse/include/synapse_node_params.h"

// These are offsets that a parameter reader relies on and that sizes alone do not pin.
SYN_ASSERT_OFFSET(ns_TopkNodeV2_ParamsV4, isStable, 9);
SYN_ASSERT_OFFSET(ns_TopkNodeV2_ParamsV4, kType, 12);
SYN_ASSERT_OFFSET(ns_RmsNorm_ParamsV4, fastMath, 13);
SYN_ASSERT_OFFSET(ns_RmsNorm_ParamsV4, dummy, 16);
SYN_ASSERT_OFFSET(ns_Sdpa_ParamsV3, is_causal, 4);
SYN_ASSERT_OFFSET(ns_Sdpa_ParamsV3, dropout, 8);
SYN_ASSERT_OFFSET(ns_Sdpa_ParamsV3, is_inference, 20);
SYN_ASSERT_OFFSET(ns_Sdpa_ParamsV3, flags, 28);
SYN_ASSERT_OFFSET(ns_ClampKernel_Params, lowerBound, 4);
SYN_ASSERT_OFFSET(ns_LayerNormKernel_ParamsRmsNorm, fastMath, 20);
SYN_ASSERT_OFFSET(ns_ResizeKernel_Params, cubicCoeffA, 28);
SYN_ASSERT_OFFSET(ns_PadKernelEx_Params, mode, 44);
SYN_ASSERT_OFFSET(ns_BatchNormKernel_ParamsV2, isTraining, 12);
SYN_ASSERT_OFFSET(synConvolutionParamsV2, paddingType, 72);
SYN_ASSERT_OFFSET(synConvolution3DParamsV2, paddingType, 96);
SYN_ASSERT_OFFSET(synTransposeParams, tensorDim, 20);
