// Parameter structs of nodes for losses; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  int32_t mode;  // ns_LossMode
} ns_NLLLossKernel_Params;
SYN_ASSERT_SIZE(ns_NLLLossKernel_Params, 4);

typedef struct {
  int32_t mode;  // ns_LossMode
  int32_t ignoreIndexValue;
} ns_NLLLossKernel_ParamsOptionalIgnoreIndex;
SYN_ASSERT_SIZE(ns_NLLLossKernel_ParamsOptionalIgnoreIndex, 8);

typedef struct {
  int32_t mode;  // ns_LossMode
} ns_MSELossKernel_Params;
SYN_ASSERT_SIZE(ns_MSELossKernel_Params, 4);

typedef struct {
  int32_t mode;  // ns_LossMode
} ns_L1LossKernel_Params;
SYN_ASSERT_SIZE(ns_L1LossKernel_Params, 4);

typedef struct {
  int32_t mode;  // ns_LossMode
  double beta;
} ns_SmoothL1LossKernel_Params;
SYN_ASSERT_SIZE(ns_SmoothL1LossKernel_Params, 16);

typedef struct {
  int32_t mode;  // ns_LossMode
  double delta;
} ns_HuberLossKernel_Params;
SYN_ASSERT_SIZE(ns_HuberLossKernel_Params, 16);

typedef struct {
  int32_t mode;  // ns_CrossEntropyMode
  int32_t batchSize;
} ns_SoftmaxCrossEntropy_Params;
SYN_ASSERT_SIZE(ns_SoftmaxCrossEntropy_Params, 8);

typedef struct {
  int32_t mode;  // ns_CrossEntropyMode
  int32_t batchSize;
  int32_t axis;
} ns_SoftmaxCrossEntropy_ParamsV2;
SYN_ASSERT_SIZE(ns_SoftmaxCrossEntropy_ParamsV2, 12);

typedef struct {
  int32_t mode;  // ns_CrossEntropyMode
  int32_t batchSize;
  uint8_t isTfMode;
  int32_t reserved;
} ns_SoftmaxCrossEntropy_ParamsV3;
SYN_ASSERT_SIZE(ns_SoftmaxCrossEntropy_ParamsV3, 16);

typedef struct {
  int32_t mode;  // ns_CrossEntropyMode
  int32_t batchSize;
  uint8_t sparse;
  int32_t reserved[2];
} ns_SoftmaxCrossEntropy_ParamsV4;
SYN_ASSERT_SIZE(ns_SoftmaxCrossEntropy_ParamsV4, 20);

typedef struct {
  int32_t mode;  // ns_CrossEntropyMode
  int32_t batchSize;
  int32_t is_approximation;
  int32_t padding[3];
} ns_SoftmaxCrossEntropy_ParamsV5;
SYN_ASSERT_SIZE(ns_SoftmaxCrossEntropy_ParamsV5, 24);

typedef struct {
  uint8_t isWeightsUsed;
  int32_t mode;  // ns_CrossEntropyMode
} ns_BinaryCrossEntropy_Params;
SYN_ASSERT_SIZE(ns_BinaryCrossEntropy_Params, 8);

typedef struct {
  uint8_t isWeightsUsed;
  int32_t mode;  // ns_CrossEntropyMode
  uint8_t binaryCrossEntropyWithoutSigmoid;
  int32_t posMode;  // ns_PosWeightMode
  int32_t isNormalizeWeights;
} ns_BinaryCrossEntropy_ParamsOptionalNormalize;
SYN_ASSERT_SIZE(ns_BinaryCrossEntropy_ParamsOptionalNormalize, 20);

typedef struct {
  uint8_t isWeightsUsed;
  int32_t mode;  // ns_CrossEntropyMode
  uint8_t binaryCrossEntropyWithoutSigmoid;
  int32_t posMode;  // ns_PosWeightMode
} ns_BinaryCrossEntropy_ParamsOptionalPosWeight;
SYN_ASSERT_SIZE(ns_BinaryCrossEntropy_ParamsOptionalPosWeight, 16);

typedef struct {
  uint8_t isWeightsUsed;
  int32_t mode;  // ns_CrossEntropyMode
  uint8_t binaryCrossEntropyWithoutSigmoid;
} ns_BinaryCrossEntropy_ParamsOptionalSigmoid;
SYN_ASSERT_SIZE(ns_BinaryCrossEntropy_ParamsOptionalSigmoid, 12);

typedef struct {
  int32_t mode;  // ns_KLDivMode
  int32_t log_target;
} ns_KLDivParams_Params;
SYN_ASSERT_SIZE(ns_KLDivParams_Params, 8);

typedef struct {
  int32_t blankIndex;
  int32_t reductionMode;  // ns_LossMode
  int32_t zeroInfinity;
} ns_CTCLoss_Params;
SYN_ASSERT_SIZE(ns_CTCLoss_Params, 12);
