// Parameter structs of nodes for resize and pooling; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  int32_t mode;  // ns_ResizeInterpolationMode
  float scaleDim1;
  float scaleDim2;
  float scaleDim3;
  int32_t coordTransMode;  // ns_ResizeCoordinateTransformationMode
  int32_t nearestMode;     // ns_ResizeNearestMode
  uint8_t excludeOutside;
  uint8_t useScales;
  float cubicCoeffA;
  int32_t size1;
  int32_t size2;
  int32_t size3;
} ns_ResizeKernel_Params;
SYN_ASSERT_SIZE(ns_ResizeKernel_Params, 44);

typedef struct {
  int32_t mode;  // ns_ResizeInterpolationMode
  float scaleDim1;
  float scaleDim2;
  float scaleDim3;
  int32_t coordTransMode;  // ns_ResizeCoordinateTransformationMode
  int32_t nearestMode;     // ns_ResizeNearestMode
  uint8_t excludeOutside;
  uint8_t useScales;
  float cubicCoeffA;
  int32_t size1;
  int32_t size2;
  int32_t size3;
  int32_t filterWidth;
  float sigma;
} ns_ResizeKernel_ParamsGauss;
SYN_ASSERT_SIZE(ns_ResizeKernel_ParamsGauss, 52);

typedef struct {
  int32_t mode;  // ns_UpsampleType
  int32_t scale;
} ns_UpsampleKernel_Params;
SYN_ASSERT_SIZE(ns_UpsampleKernel_Params, 8);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
} ns_SpatialReduction_Params;
SYN_ASSERT_SIZE(ns_SpatialReduction_Params, 44);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t pad_d_begin;
  int32_t pad_d_end;
  int32_t kernel_d;
  int32_t stride_d;
  int32_t dilation_d;
} ns_SpatialReduction3D_Params;
SYN_ASSERT_SIZE(ns_SpatialReduction3D_Params, 64);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t includePadding;
} ns_AveragePooling_Params;
SYN_ASSERT_SIZE(ns_AveragePooling_Params, 48);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t includePadding;
  uint8_t isValidCount;
  int32_t dummy;
} ns_AveragePooling_ParamsIsValidCount;
SYN_ASSERT_SIZE(ns_AveragePooling_ParamsIsValidCount, 56);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t includePadding;
  int32_t divisorOverride;
} ns_AveragePoolingWithDivisorOverride_Params;
SYN_ASSERT_SIZE(ns_AveragePoolingWithDivisorOverride_Params, 52);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t includePadding;
  int32_t divisorOverride;
  uint8_t isValidCount;
  int32_t dummy;
} ns_AveragePoolingWithDivisorOverride_ParamsIsValidCount;
SYN_ASSERT_SIZE(ns_AveragePoolingWithDivisorOverride_ParamsIsValidCount, 60);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t pad_d_begin;
  int32_t pad_d_end;
  int32_t kernel_d;
  int32_t stride_d;
  int32_t dilation_d;
  int32_t includePadding;
} ns_AveragePooling3D_Params;
SYN_ASSERT_SIZE(ns_AveragePooling3D_Params, 68);

typedef struct {
  int32_t pad_w_begin;
  int32_t pad_w_end;
  int32_t pad_h_begin;
  int32_t pad_h_end;
  int32_t kernel_w;
  int32_t kernel_h;
  int32_t stride_w;
  int32_t stride_h;
  int32_t dilation_w;
  int32_t dilation_h;
  int32_t pooling_convention;  // ns_PoolingConvention
  int32_t pad_d_begin;
  int32_t pad_d_end;
  int32_t kernel_d;
  int32_t stride_d;
  int32_t dilation_d;
  int32_t includePadding;
  int32_t divisorOverride;
} ns_AveragePooling3DWithDivisorOverride_Params;
SYN_ASSERT_SIZE(ns_AveragePooling3DWithDivisorOverride_Params, 72);

typedef struct {
  int32_t outputWidth;
  int32_t outputHeight;
} ns_AdaptiveAvgPool_Params;
SYN_ASSERT_SIZE(ns_AdaptiveAvgPool_Params, 8);

typedef struct {
  int32_t outputWidth;
  int32_t outputHeight;
  int32_t outputBatch;
} ns_AdaptiveAvgPool3D_Params;
SYN_ASSERT_SIZE(ns_AdaptiveAvgPool3D_Params, 12);

typedef struct {
  int32_t interp;  // ns_GridSampleInterpolation
  int32_t pad;     // ns_GridSamplePad
  uint8_t alignCorners;
} ns_GridSample_Params;
SYN_ASSERT_SIZE(ns_GridSample_Params, 12);
