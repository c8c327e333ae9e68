// Parameter structs of nodes for random; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  float ratio;
  uint32_t seed;
} ns_DropoutKernel_Params;
SYN_ASSERT_SIZE(ns_DropoutKernel_Params, 8);

typedef struct {
  float ratio;
  uint32_t seed;
  uint8_t disableMaskOut;
} ns_DropoutKernel_ParamsOptionalMaskOut;
SYN_ASSERT_SIZE(ns_DropoutKernel_ParamsOptionalMaskOut, 12);

typedef struct {
  float ratio;
  uint32_t seed;
  uint8_t disableMaskOut;
  int32_t isTraining;
} ns_DropoutKernel_ParamsOptionalTrain;
SYN_ASSERT_SIZE(ns_DropoutKernel_ParamsOptionalTrain, 16);

typedef struct {
  float low;
  float high;
  uint32_t seed;
} ns_RandomUniform_Params;
SYN_ASSERT_SIZE(ns_RandomUniform_Params, 12);

typedef struct {
  ns_Fint low;
  ns_Fint high;
  uint32_t seed;
  int32_t dummy;
} ns_RandomUniform_ParamsV2;
SYN_ASSERT_SIZE(ns_RandomUniform_ParamsV2, 16);

typedef struct {
  float low;
  float high;
  uint32_t seed;
} ns_PhiloxRandomUniform_Params;
SYN_ASSERT_SIZE(ns_PhiloxRandomUniform_Params, 12);

typedef struct {
  float low;
  float high;
  uint32_t seed;
  uint32_t counterInitial;
} ns_PhiloxRandomUniform_ParamsV2;
SYN_ASSERT_SIZE(ns_PhiloxRandomUniform_ParamsV2, 16);

typedef struct {
  float low;
  float high;
  uint32_t seed;
  uint32_t counterInitial;
  int32_t low_i;
  int32_t high_i;
} ns_PhiloxRandomUniform_ParamsV3;
SYN_ASSERT_SIZE(ns_PhiloxRandomUniform_ParamsV3, 24);

typedef struct {
  float mean;
  float stddev;
  uint32_t seed;
} ns_RandomNormal_Params;
SYN_ASSERT_SIZE(ns_RandomNormal_Params, 12);

typedef struct {
  uint32_t seed;
} ns_RandomBernoulli_Params;
SYN_ASSERT_SIZE(ns_RandomBernoulli_Params, 4);

typedef struct {
  uint32_t seed;
  float probability;
} ns_RandomBernoulli_ParamsV2;
SYN_ASSERT_SIZE(ns_RandomBernoulli_ParamsV2, 8);

typedef struct {
  int32_t outcomes;
  int32_t shape;
  int32_t get_prob;
  uint32_t seed;
} ns_RandomMultinomial_Params;
SYN_ASSERT_SIZE(ns_RandomMultinomial_Params, 16);

typedef struct {
  int32_t outcomes;
  int32_t shape;
  int32_t get_prob;
  uint32_t seed;
  int32_t num_samples;
  uint8_t replacement;
} ns_RandomMultinomial_ParamsV2;
SYN_ASSERT_SIZE(ns_RandomMultinomial_ParamsV2, 24);

typedef struct {
  int32_t outcomes;
  int32_t shape;
  int32_t get_prob;
  uint32_t seed;
  int32_t num_samples;
  uint8_t replacement;
  int32_t isTfMode;
  uint8_t useRandomSeed;
} ns_RandomMultinomial_ParamsV3;
SYN_ASSERT_SIZE(ns_RandomMultinomial_ParamsV3, 32);

typedef struct {
  float lambda;
  uint32_t seed;
  int32_t poissonFlavor;  // ns_RandomPoissonFlavor
} ns_RandomPoisson_Params;
SYN_ASSERT_SIZE(ns_RandomPoisson_Params, 12);

typedef struct {
  float beta;
  uint32_t seed;
} ns_RandomExponential_Params;
SYN_ASSERT_SIZE(ns_RandomExponential_Params, 8);
