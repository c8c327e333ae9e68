// Parameter structs of nodes that the graph compiler itself implements (no vector kernel). Flat C
// layouts; variants of one struct are recognised by their size. Kernel parameters (ns_*) are in
// synapse_kernel_params.h. uint8_t fields are booleans unless said otherwise; axes are FCD-first.
#pragma once

#include "synapse_api_types.h"
#include "synapse_kernel_params.h"

// gemm, batch_gemm and their gradients.
typedef struct synGEMMParams {
  uint8_t transpose_a;
  uint8_t transpose_b;
} synGEMMParams;
SYN_ASSERT_SIZE(synGEMMParams, 2);

// Part of the convolution structs; all zero.
typedef struct synActivationParams {
  uint8_t reluEnable;
  uint8_t resAfterPWL;
  uint16_t pad;
  uint32_t numChannels;
  uint64_t pwlNegCoeff;
  uint64_t pwlPosCoeff;
} synActivationParams;
SYN_ASSERT_SIZE(synActivationParams, 24);

// spatial_convolution, dedx, dedw. k = kernel, d = stride.
typedef struct synConvolutionParams {
  uint32_t kW;
  uint32_t kH;
  uint32_t dW;
  uint32_t dH;
  int32_t padL;
  int32_t padR;
  int32_t padT;
  int32_t padB;
  uint32_t dilW;
  uint32_t dilH;
  synActivationParams activation;
  uint32_t nGroups;
  uint32_t pad;
} synConvolutionParams;
SYN_ASSERT_SIZE(synConvolutionParams, 72);
SYN_ASSERT_OFFSET(synConvolutionParams, activation, 40);
SYN_ASSERT_OFFSET(synConvolutionParams, nGroups, 64);

typedef struct synConvolutionParamsV2 {
  synConvolutionParams base;
  int32_t paddingType;  // synConvolutionPaddingType
  uint32_t reserved[9];
} synConvolutionParamsV2;
SYN_ASSERT_SIZE(synConvolutionParamsV2, 112);

// spatial_convolution3d, dedx3d, dedw3d. Arrays by CONV_KERNEL_*, CONV_STRIDE_*, CONV_PAD_*,
// CONV_DIL_*.
typedef struct synConvolution3DParams {
  uint32_t kernel[3];
  uint32_t stride[3];
  int32_t padding[6];
  uint32_t dilation[3];
  uint32_t pad;
  synActivationParams activation;
  uint32_t nGroups;
  uint32_t pad2;
} synConvolution3DParams;
SYN_ASSERT_SIZE(synConvolution3DParams, 96);
SYN_ASSERT_OFFSET(synConvolution3DParams, activation, 64);
SYN_ASSERT_OFFSET(synConvolution3DParams, nGroups, 88);

typedef struct synConvolution3DParamsV2 {
  synConvolution3DParams base;
  int32_t paddingType;  // synConvolutionPaddingType
  uint32_t reserved[9];
} synConvolution3DParamsV2;
SYN_ASSERT_SIZE(synConvolution3DParamsV2, 136);

typedef struct synDeformableConvParams {
  synConvolutionParams base;
  uint32_t nDeformableGroups;
  uint32_t pad;
} synDeformableConvParams;
SYN_ASSERT_SIZE(synDeformableConvParams, 80);

typedef struct synDeformableConvParamsV2 {
  synDeformableConvParams base;
  int32_t paddingType;  // synConvolutionPaddingType
  uint32_t reserved[9];
} synDeformableConvParamsV2;
SYN_ASSERT_SIZE(synDeformableConvParamsV2, 120);

// transpose: output.sizes[i] = input.sizes[permutation[i]].
typedef struct synTransposeParams {
  uint32_t permutation[MAX_DIMENSIONS_NUM];
  uint32_t tensorDim;
} synTransposeParams;
SYN_ASSERT_SIZE(synTransposeParams, 24);

typedef struct synTransposeParamsNDims {
  uint32_t tensorDim;
  uint32_t permutation[HABANA_DIM_MAX];
} synTransposeParamsNDims;
SYN_ASSERT_SIZE(synTransposeParamsNDims, 104);

// concat, split, expand_dims, squeeze, flatten.
typedef struct synAxisParams {
  uint32_t axis;
} synAxisParams;
typedef synAxisParams synConcatenateParams;
typedef synAxisParams synSplitParams;
typedef synAxisParams synExpandDimsParams;
typedef synAxisParams synSqueezeParams;
typedef synAxisParams synFlattenParams;
SYN_ASSERT_SIZE(synAxisParams, 4);

typedef struct synSliceAxisParams {
  uint32_t axis;
  uint32_t begin;
  uint32_t end;
} synSliceAxisParams;
SYN_ASSERT_SIZE(synSliceAxisParams, 12);

typedef struct synSliceAxisParamsV2 {
  uint32_t axis;
  uint32_t pad;
  uint64_t begin;
  uint64_t end;
} synSliceAxisParamsV2;
SYN_ASSERT_SIZE(synSliceAxisParamsV2, 24);

// slice, slice_insert, strided_slice_grad. The first rank(x) entries are read; an entry with axis,
// start and end 0 is ignored; axes that are not listed are whole.
typedef struct synSliceParams {
  uint32_t axes[MAX_DIMENSIONS_NUM];
  uint32_t starts[MAX_DIMENSIONS_NUM];
  uint32_t ends[MAX_DIMENSIONS_NUM];
  uint32_t steps[MAX_DIMENSIONS_NUM];
} synSliceParams;
SYN_ASSERT_SIZE(synSliceParams, 80);

typedef struct synSliceParamsNDims {
  uint32_t axes[HABANA_DIM_MAX];
  uint32_t starts[HABANA_DIM_MAX];
  uint32_t ends[HABANA_DIM_MAX];
  uint32_t steps[HABANA_DIM_MAX];
} synSliceParamsNDims;
SYN_ASSERT_SIZE(synSliceParamsNDims, 400);

typedef struct synSliceParamsV2 {
  uint32_t axes[HABANA_DIM_MAX];
  uint32_t pad;
  uint64_t starts[HABANA_DIM_MAX];
  uint64_t ends[HABANA_DIM_MAX];
  uint64_t steps[HABANA_DIM_MAX];
} synSliceParamsV2;
SYN_ASSERT_SIZE(synSliceParamsV2, 704);
SYN_ASSERT_OFFSET(synSliceParamsV2, starts, 104);

// strided_view, strided_insert. Offset and strides in elements.
typedef struct synStridedOpParams {
  uint64_t baseOffset;
  uint64_t strides[HABANA_DIM_MAX];
} synStridedOpParams;
SYN_ASSERT_SIZE(synStridedOpParams, 208);

// topk; bsw = k.
typedef struct synBeamParams {
  uint32_t bsw;
  uint32_t axis;
  uint8_t bottomK;
  uint8_t pad;
  uint16_t pad2;
} synBeamParams;
SYN_ASSERT_SIZE(synBeamParams, 12);

typedef struct synEinsumParams {
  char equation[MAX_EINSUM_EQUATION_LENGTH + 1];
} synEinsumParams;
SYN_ASSERT_SIZE(synEinsumParams, 51);

typedef struct synInferMaxParams {
  uint8_t shouldInferMax[HABANA_DIM_MAX];
} synInferMaxParams;
SYN_ASSERT_SIZE(synInferMaxParams, 25);

typedef struct synDepthSpaceParams {
  uint32_t blockSize;
  uint32_t mode;
} synDepthSpaceParams;
SYN_ASSERT_SIZE(synDepthSpaceParams, 8);

typedef struct synFCParams {
  synActivationParams activation;
} synFCParams;
SYN_ASSERT_SIZE(synFCParams, 24);

typedef struct synWaitParams {
  uint32_t waitCycles;
} synWaitParams;
SYN_ASSERT_SIZE(synWaitParams, 4);

typedef struct synNMSParams {
  float scoreTh;
  float iouTh;
  uint32_t maxOutSize;
} synNMSParams;
SYN_ASSERT_SIZE(synNMSParams, 12);

typedef struct synTfBatchNormalizationParams {
  float variance_epsilon;
} synTfBatchNormalizationParams;
SYN_ASSERT_SIZE(synTfBatchNormalizationParams, 4);

// 8 bytes without `reserved` in 1.19.
typedef struct synAssertAsyncParams {
  uint64_t msg_id;
  uint32_t reserved;
} synAssertAsyncParams;
SYN_ASSERT_SIZE(synAssertAsyncParams, 16);
