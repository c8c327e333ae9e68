// Parameter structs of nodes for indexing; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  int32_t axis;
} ns_GatherKernel_Params;
SYN_ASSERT_SIZE(ns_GatherKernel_Params, 4);

typedef struct {
  int32_t axis;
  int32_t batchDims;
} ns_GatherKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_GatherKernel_ParamsV2, 8);

typedef struct {
  int32_t axis;
} ns_GatherElementsKernel_Params;
SYN_ASSERT_SIZE(ns_GatherElementsKernel_Params, 4);

typedef struct {
  int32_t axis;
  uint8_t isSort;
} ns_GatherElementsKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_GatherElementsKernel_ParamsV2, 8);

typedef struct {
  int32_t axis;
  int32_t mode;
} ns_TakeKernel_Params;
SYN_ASSERT_SIZE(ns_TakeKernel_Params, 8);

typedef struct {
  uint8_t accumulate;
} ns_PutKernel_Params;
SYN_ASSERT_SIZE(ns_PutKernel_Params, 1);

typedef struct {
  int32_t axis;
} ns_ScatterKernel_Params;
SYN_ASSERT_SIZE(ns_ScatterKernel_Params, 4);

typedef struct {
  int32_t axis;
  int32_t isIndicesLarger;  // ns_ScatterIndicesSizeControl
} ns_ScatterKernel_ParamsIndices;
SYN_ASSERT_SIZE(ns_ScatterKernel_ParamsIndices, 8);

typedef struct {
  int32_t axis;
  int32_t isIndicesLarger;  // ns_ScatterIndicesSizeControl
  int32_t dim;
  int32_t include_self;
} ns_ScatterKernel_ParamsReduce;
SYN_ASSERT_SIZE(ns_ScatterKernel_ParamsReduce, 16);

typedef struct {
  int32_t axis;
  int32_t isIndicesLarger;  // ns_ScatterIndicesSizeControl
  int32_t dim;
} ns_ScatterKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_ScatterKernel_ParamsV2, 12);

typedef struct {
  int32_t dim;  // PyTorch order
  uint8_t include_self;
  int32_t mode;  // ns_ScatterReduceMode
} ns_ScatterReduceKernel_Params;
SYN_ASSERT_SIZE(ns_ScatterReduceKernel_Params, 12);

typedef struct {
  int32_t origIndicesDims;
  int32_t origIndicesShape[5];
} ns_ScatterNDKernel_Params;
SYN_ASSERT_SIZE(ns_ScatterNDKernel_Params, 24);

typedef struct {
  int32_t origIndicesDims;
  int32_t origIndicesShape[5];
  uint8_t isUnsorted;
} ns_ScatterNDKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_ScatterNDKernel_ParamsV2, 28);

typedef struct {
  int32_t mode;  // ns_ScatterNdUpdateMode
} ns_ScatterNdUpdateKernel_Params;
SYN_ASSERT_SIZE(ns_ScatterNdUpdateKernel_Params, 4);

typedef struct {
  int32_t axis;
} ns_IndexCopy_Params;
SYN_ASSERT_SIZE(ns_IndexCopy_Params, 4);

typedef struct {
  int32_t num_weights;
  int32_t padding_idx;
  uint8_t scaleGradByFreq;
} ns_EmbeddingDensePtBwdKernel_Params;
SYN_ASSERT_SIZE(ns_EmbeddingDensePtBwdKernel_Params, 12);

typedef struct {
  double max_norm;
  double norm_type;
} ns_EmbeddingRenormFwdKernel_Params;
SYN_ASSERT_SIZE(ns_EmbeddingRenormFwdKernel_Params, 16);

typedef struct {
  ns_Fint threshold;
} ns_FilterAndSqueeze_Params;
SYN_ASSERT_SIZE(ns_FilterAndSqueeze_Params, 4);
