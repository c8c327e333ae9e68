// Parameter structs of nodes for reductions, scans, sorting; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  uint32_t reductionDimension;
} ns_Reduction_Params;
SYN_ASSERT_SIZE(ns_Reduction_Params, 4);

// Bit i = dim i; 0 = all dims.
typedef struct {
  uint32_t reductionDimensionMask;
  uint8_t keepDim;
} ns_Reduction_ParamsV2;
SYN_ASSERT_SIZE(ns_Reduction_ParamsV2, 8);

typedef struct {
  uint32_t reductionDimension;
  uint32_t p;
} ns_ReduceLp_Params;
SYN_ASSERT_SIZE(ns_ReduceLp_Params, 8);

typedef struct {
  uint32_t reductionDimension;
  ns_Fint p;
  int32_t typeOfP;  // ns_TypeOfP
} ns_ReduceLpV2_Params;
SYN_ASSERT_SIZE(ns_ReduceLpV2_Params, 12);

typedef struct {
  int32_t dims;
} ns_CountNonZero_Params;
SYN_ASSERT_SIZE(ns_CountNonZero_Params, 4);

typedef struct {
  int32_t axis;
  int32_t exclusive;
  int32_t reverse;
} ns_CumSumKernel_Params;
SYN_ASSERT_SIZE(ns_CumSumKernel_Params, 12);

typedef struct {
  int32_t axis;
  int32_t exclusive;
  int32_t reverse;
} ns_CumProdKernel_Params;
SYN_ASSERT_SIZE(ns_CumProdKernel_Params, 12);

typedef struct {
  int32_t axis;
} ns_CumMaxKernel_Params;
SYN_ASSERT_SIZE(ns_CumMaxKernel_Params, 4);

typedef struct {
  int32_t axis;
  int32_t numTpc;
} ns_CumMaxKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_CumMaxKernel_ParamsV2, 8);

typedef struct {
  uint32_t bsw;
} ns_TopkNodeV2_Params;
SYN_ASSERT_SIZE(ns_TopkNodeV2_Params, 4);

typedef struct {
  uint32_t bsw;
  uint32_t axis;
} ns_TopkNodeV2_ParamsV2;
SYN_ASSERT_SIZE(ns_TopkNodeV2_ParamsV2, 8);

typedef struct {
  uint32_t bsw;
  uint32_t axis;
  uint8_t bottomK;
} ns_TopkNodeV2_ParamsV3;
SYN_ASSERT_SIZE(ns_TopkNodeV2_ParamsV3, 12);

typedef struct {
  uint32_t bsw;
  uint32_t axis;
  uint8_t bottomK;
  uint8_t isStable;
  uint8_t isVcData;
  int32_t kType;  // ns_KTensorType
} ns_TopkNodeV2_ParamsV4;
SYN_ASSERT_SIZE(ns_TopkNodeV2_ParamsV4, 16);

typedef struct {
  uint32_t bsw;
  uint32_t axis;
  uint8_t bottomK;
  uint8_t isStable;
  uint8_t isVcData;
  int32_t kType;  // ns_KTensorType
  uint8_t avoidHandleNans;
} ns_TopkNodeV2_ParamsV5;
SYN_ASSERT_SIZE(ns_TopkNodeV2_ParamsV5, 20);

typedef struct {
  uint32_t bsw;
  uint32_t axis;
  uint32_t bottomK;
} ns_TopkNode_Params;
SYN_ASSERT_SIZE(ns_TopkNode_Params, 12);

typedef struct {
  int32_t axis;
  uint8_t isDescending;
  int32_t sortFlavor;
} ns_Sort_Params;
SYN_ASSERT_SIZE(ns_Sort_Params, 12);

typedef struct {
  uint32_t k_value;
  uint32_t axis;
  uint8_t keep_dims;
} ns_Kthvalue_Params;
SYN_ASSERT_SIZE(ns_Kthvalue_Params, 12);

typedef struct {
  int32_t right;
} ns_SearchSorted_Params;
SYN_ASSERT_SIZE(ns_SearchSorted_Params, 4);

typedef struct {
  int32_t returnInverse;
  int32_t returnCounts;
  int32_t dim;
} ns_UniqueKernel_Params;
SYN_ASSERT_SIZE(ns_UniqueKernel_Params, 12);

typedef struct {
  int32_t returnInverse;
  int32_t returnCounts;
  int32_t dim;
  int32_t sorted;
} ns_UniqueKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_UniqueKernel_ParamsV2, 16);

typedef struct {
  uint32_t pads[10];
  uint32_t max_chunks;
  uint32_t group_size;
} ns_NonzeroV2_Params;
SYN_ASSERT_SIZE(ns_NonzeroV2_Params, 48);
