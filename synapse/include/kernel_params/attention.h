// Parameter structs of nodes for matrix and attention; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"
#include "random.h"

typedef struct {
  float alpha;
  float beta;
} ns_AddmmKernel_Params;
SYN_ASSERT_SIZE(ns_AddmmKernel_Params, 8);

typedef struct {
  float alpha;
  float beta;
} ns_AddmvKernel_Params;
SYN_ASSERT_SIZE(ns_AddmvKernel_Params, 8);

typedef struct {
  float alpha;
  float beta;
} ns_AddrKernel_Params;
SYN_ASSERT_SIZE(ns_AddrKernel_Params, 8);

typedef struct {
  uint8_t gradBias;
} ns_LinearBwdKernel_Params;
SYN_ASSERT_SIZE(ns_LinearBwdKernel_Params, 1);

typedef struct {
  uint8_t skip_other_transpose;
} ns_MatmulBwdKernel_Params;
SYN_ASSERT_SIZE(ns_MatmulBwdKernel_Params, 1);

typedef struct {
  uint32_t base;
  uint32_t offset;
} ns_RoPE_Params;
SYN_ASSERT_SIZE(ns_RoPE_Params, 8);

typedef struct {
  uint32_t offset;
} ns_RoPESt2_Params;
SYN_ASSERT_SIZE(ns_RoPESt2_Params, 4);

typedef struct {
  uint32_t offset;
  int32_t mode;  // ns_RotaryPosEmbeddingMode
} ns_RoPESt2_ParamsV2;
SYN_ASSERT_SIZE(ns_RoPESt2_ParamsV2, 8);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
} ns_Sdpa_Params;
SYN_ASSERT_SIZE(ns_Sdpa_Params, 24);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
  int32_t softmax_mode;  // ns_SdpaSoftmaxMode
} ns_Sdpa_ParamsV2;
SYN_ASSERT_SIZE(ns_Sdpa_ParamsV2, 28);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
  int32_t softmax_mode;  // ns_SdpaSoftmaxMode
  uint32_t flags;
} ns_Sdpa_ParamsV3;
SYN_ASSERT_SIZE(ns_Sdpa_ParamsV3, 32);

typedef struct {
  int32_t numLower;
  int32_t numUpper;
} ns_MatrixBandPartKernel_Params;
SYN_ASSERT_SIZE(ns_MatrixBandPartKernel_Params, 8);

typedef struct {
  int32_t numLower;
  int32_t numUpper;
  int32_t excludeDiag;
} ns_MatrixBandPartKernel_TriParams;
SYN_ASSERT_SIZE(ns_MatrixBandPartKernel_TriParams, 12);

typedef struct {
  float ratio;
  uint32_t seed;
  uint32_t allSlicesBase;
  int32_t mode;  // ns_ScaledMaskedTriangularSoftmaxMode
  uint8_t isSeedH2D;
  uint8_t isAllSlicesBaseH2D;
  uint8_t isResetUpperTriangle;
} ns_ScaledTriangularDropoutMaskKernel_Params;
SYN_ASSERT_SIZE(ns_ScaledTriangularDropoutMaskKernel_Params, 20);

typedef struct {
  int32_t maskArea;  // ns_UpperTriangularMaskArea
  uint32_t allSlicesBase;
  int32_t slicedMode;  // ns_ScaledMaskedTriangularSoftmaxMode
} ns_UpperTriangularKernel_Params;
SYN_ASSERT_SIZE(ns_UpperTriangularKernel_Params, 12);

typedef struct {
  float scale;
  int32_t zero_point;
} ns_QuantizationPerTensor_Params;
SYN_ASSERT_SIZE(ns_QuantizationPerTensor_Params, 8);

typedef struct {
  float scale;
  int32_t zero_point;
  int32_t quant_min;
  int32_t quant_max;
} ns_QuantizationPerTensor_ParamsV2;
SYN_ASSERT_SIZE(ns_QuantizationPerTensor_ParamsV2, 16);

typedef struct {
  int32_t axis;
} ns_QuantizationPerChannel_Params;
SYN_ASSERT_SIZE(ns_QuantizationPerChannel_Params, 4);

typedef struct {
  int32_t axis;
  int32_t quant_min;
  int32_t quant_max;
} ns_QuantizationPerChannel_ParamsV2;
SYN_ASSERT_SIZE(ns_QuantizationPerChannel_ParamsV2, 12);
