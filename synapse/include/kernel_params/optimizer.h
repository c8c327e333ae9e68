// Parameter structs of nodes for optimizers; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  float wd;
  float mom;
  float damp;
  uint8_t nesterov;
} ns_OptimizerSGD_Params;
SYN_ASSERT_SIZE(ns_OptimizerSGD_Params, 16);

typedef struct {
  float mom;
  uint8_t nesterov;
} ns_OptimizerSparseSGD_Params;
SYN_ASSERT_SIZE(ns_OptimizerSparseSGD_Params, 8);

typedef struct {
  float wd;
  float lrd;
  float eps;
} ns_OptimizerAdagrad_Params;
SYN_ASSERT_SIZE(ns_OptimizerAdagrad_Params, 12);

typedef struct {
  float decay;
  float eps;
} ns_OptimizerSparseAdagrad_Params;
SYN_ASSERT_SIZE(ns_OptimizerSparseAdagrad_Params, 8);
