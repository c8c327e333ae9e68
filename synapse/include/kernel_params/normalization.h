// Parameter structs of nodes for softmax and normalisation; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  int32_t dim;
} ns_Softmax_Params;
SYN_ASSERT_SIZE(ns_Softmax_Params, 4);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
} ns_Softmax_ParamsV3;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV3, 8);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
} ns_Softmax_ParamsV4;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV4, 12);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
} ns_Softmax_ParamsV5;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV5, 16);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
  int32_t triangularMode;
} ns_Softmax_ParamsV6;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV6, 20);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
  int32_t triangularMode;
  int32_t mode;  // ns_SoftmaxMode
} ns_Softmax_ParamsV7;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV7, 24);

typedef struct {
  int32_t flavor;
} ns_CustomSoftmax_Params;
SYN_ASSERT_SIZE(ns_CustomSoftmax_Params, 4);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
} ns_ScaledMaskedSoftmax_Params;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_Params, 16);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
  int32_t mode;     // ns_ScaledMaskedTriangularSoftmaxMode
  int32_t allSlicesBase;
} ns_ScaledMaskedSoftmax_ParamsV2;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_ParamsV2, 24);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
  int32_t mode;     // ns_ScaledMaskedTriangularSoftmaxMode
  int32_t allSlicesBase;
  int32_t isToZeroUpperTriangle;
} ns_ScaledMaskedSoftmax_ParamsV3;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_ParamsV3, 28);

typedef struct {
  uint8_t epsValid;
  float eps;
} ns_LayerNormKernel_Params;
SYN_ASSERT_SIZE(ns_LayerNormKernel_Params, 8);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
} ns_LayerNormKernel_ParamsNorm;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsNorm, 16);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
  uint32_t normalizedShapeDims;
} ns_LayerNormKernel_ParamsPt;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsPt, 20);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
  uint32_t normalizedShapeDims;
  uint8_t fastMath;
} ns_LayerNormKernel_ParamsRmsNorm;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsRmsNorm, 24);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
} ns_RmsNorm_Params;
SYN_ASSERT_SIZE(ns_RmsNorm_Params, 8);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
} ns_RmsNorm_ParamsV2;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV2, 12);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
  uint8_t useStages;
} ns_RmsNorm_ParamsV3;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV3, 16);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
  uint8_t useStages;
  uint8_t fastMath;
  int32_t dummy;
} ns_RmsNorm_ParamsV4;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV4, 20);

typedef struct {
  ns_Fint threshold;
  float momentum;
  float epsilon;
} ns_BatchNormKernel_Params;
SYN_ASSERT_SIZE(ns_BatchNormKernel_Params, 12);

typedef struct {
  ns_Fint threshold;
  float momentum;
  float epsilon;
  uint8_t isTraining;
} ns_BatchNormKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_BatchNormKernel_ParamsV2, 16);

typedef struct {
  float momentum;
  float eps;
} ns_InstanceNormTrainingKernel_Params;
SYN_ASSERT_SIZE(ns_InstanceNormTrainingKernel_Params, 8);

typedef struct {
  float momentum;
  float eps;
  int32_t enRelu;
} ns_InstanceNormTrainingKernel_ParamsRelu;
SYN_ASSERT_SIZE(ns_InstanceNormTrainingKernel_ParamsRelu, 12);

typedef struct {
  uint32_t N;
  uint32_t G;
  float epsilon;
} ns_NativeGroupNorm_Params;
SYN_ASSERT_SIZE(ns_NativeGroupNorm_Params, 12);

typedef struct {
  float p;
  float eps;
  int32_t dim;
} ns_LpNormKernel_Params;
SYN_ASSERT_SIZE(ns_LpNormKernel_Params, 12);

typedef struct {
  float p;
  float eps;
  int32_t dim;
  uint8_t epsMax;
} ns_LpNormKernel_ParamsNorm;
SYN_ASSERT_SIZE(ns_LpNormKernel_ParamsNorm, 16);

typedef struct {
  uint32_t NormAxisBmp;
} ns_NormMomentsKernel_Params;
SYN_ASSERT_SIZE(ns_NormMomentsKernel_Params, 4);

typedef struct {
  uint32_t NormAxisBmp;
  uint8_t useEstMean;
} ns_NormMomentsKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_NormMomentsKernel_ParamsV2, 8);

typedef struct {
  float epsilon;
} ns_L2normKernel_Params;
SYN_ASSERT_SIZE(ns_L2normKernel_Params, 4);
