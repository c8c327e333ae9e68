// Parameter structs of nodes for activations; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  ns_Fint threshold;
} ns_ReluKernel_Params;
SYN_ASSERT_SIZE(ns_ReluKernel_Params, 4);

typedef struct {
  ns_Fint threshold;
  ns_Fint replacementValue;
} ns_ReluKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_ReluKernel_ParamsV2, 8);

// alpha is a double, unlike every other activation.
typedef struct {
  double alpha;
} ns_LeakyReluKernel_Params;
SYN_ASSERT_SIZE(ns_LeakyReluKernel_Params, 8);

typedef struct {
  float alpha;
} ns_EluKernel_Params;
SYN_ASSERT_SIZE(ns_EluKernel_Params, 4);

typedef struct {
  float alpha;
  uint8_t isInputFeaturemap;
} ns_EluKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_EluKernel_ParamsV2, 8);

typedef struct {
  float alpha;
  uint8_t isInputFeaturemap;
  float scale;
  float input_scale;
} ns_EluKernel_ParamsV3;
SYN_ASSERT_SIZE(ns_EluKernel_ParamsV3, 16);

typedef struct {
  float gamma;
  float alpha;
} ns_SeluKernel_Params;
SYN_ASSERT_SIZE(ns_SeluKernel_Params, 8);

typedef struct {
  float gamma;
  float alpha;
  uint8_t isInputFeaturemap;
} ns_SeluKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_SeluKernel_ParamsV2, 12);

typedef struct {
  uint8_t approximation;
} ns_GeluKernel_Params;
SYN_ASSERT_SIZE(ns_GeluKernel_Params, 1);

typedef struct {
  uint8_t approximation;
  int32_t accuracy_mode;  // ns_GeluAccuracyMode
} ns_GeluKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_GeluKernel_ParamsV2, 8);

typedef struct {
  int32_t flavor;  // ns_SigmoidFlavor
} ns_SigmoidKernel_Params;
SYN_ASSERT_SIZE(ns_SigmoidKernel_Params, 4);

typedef struct {
  float alpha;
  float beta;
} ns_HardSigmoidKernel_Params;
SYN_ASSERT_SIZE(ns_HardSigmoidKernel_Params, 8);

typedef struct {
  ns_Fint upperBound;
  ns_Fint lowerBound;
} ns_HardTanhKernel_Params;
SYN_ASSERT_SIZE(ns_HardTanhKernel_Params, 8);

// The upper bound comes first.
typedef struct {
  ns_Fint upperBound;
  ns_Fint lowerBound;
} ns_ClampKernel_Params;
SYN_ASSERT_SIZE(ns_ClampKernel_Params, 8);

typedef struct {
  float beta;
  float threshold;
} ns_Softplus_Params;
SYN_ASSERT_SIZE(ns_Softplus_Params, 8);

typedef struct {
  float beta;
  float threshold;
  int32_t accuracyMode;  // ns_SoftplusAccuracyMode
} ns_Softplus_ParamsV2;
SYN_ASSERT_SIZE(ns_Softplus_ParamsV2, 12);

typedef struct {
  float lambda;
  float bias;
} ns_ShrinkKernel_Params;
SYN_ASSERT_SIZE(ns_ShrinkKernel_Params, 8);

typedef struct {
  float lambda;
  float bias;
  float lowerBound;
  float upperBound;
  int32_t mode;  // ns_ShrinkMode
} ns_ShrinkKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_ShrinkKernel_ParamsV2, 20);

typedef struct {
  float epsilon;
} ns_LogitKernel_Params;
SYN_ASSERT_SIZE(ns_LogitKernel_Params, 4);
