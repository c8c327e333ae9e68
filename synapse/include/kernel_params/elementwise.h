// Parameter structs of nodes for elementwise; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  ns_Fint alpha;
  int32_t mode;  // ns_BinaryWithAlphaMode
} ns_BinaryWithAlphaKernel_Params;
SYN_ASSERT_SIZE(ns_BinaryWithAlphaKernel_Params, 8);

typedef struct {
  uint8_t isPyCompatible;
} ns_DivModKernel_Params;
SYN_ASSERT_SIZE(ns_DivModKernel_Params, 1);

typedef struct {
  uint8_t isPyCompatible;
  uint8_t isTruncRoundingMode;
} ns_DivModKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_DivModKernel_ParamsV2, 2);

typedef struct {
  int32_t mode;  // ns_DivRoundMode
} ns_DivRoundKernel_Params;
SYN_ASSERT_SIZE(ns_DivRoundKernel_Params, 4);

typedef struct {
  int32_t roundMode;  // ns_RoundMode
} ns_RoundKernel_Params;
SYN_ASSERT_SIZE(ns_RoundKernel_Params, 4);

typedef struct {
  int32_t roundMode;  // ns_RoundMode
  int32_t num_decimal_round;
} ns_RoundKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_RoundKernel_ParamsV2, 8);

typedef struct {
  float exp_val;
} ns_Power_Params;
SYN_ASSERT_SIZE(ns_Power_Params, 4);

typedef struct {
  int32_t direction;  // ns_ShiftDir
} ns_BitShiftKernel_Params;
SYN_ASSERT_SIZE(ns_BitShiftKernel_Params, 4);

typedef struct {
  int32_t direction;  // ns_ShiftDir
  int32_t mode;       // ns_ShiftMode
} ns_BitShiftKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_BitShiftKernel_ParamsV2, 8);

typedef struct {
  int32_t detect_negative;
  int32_t detect_positive;
} ns_IsInfKernel_Params;
SYN_ASSERT_SIZE(ns_IsInfKernel_Params, 8);

typedef struct {
  double nan;
  double posInf;
  double negInf;
} ns_NanToNumKernel_Params;
SYN_ASSERT_SIZE(ns_NanToNumKernel_Params, 24);

typedef struct {
  float value;
} ns_AddcmulKernel_Params;
SYN_ASSERT_SIZE(ns_AddcmulKernel_Params, 4);

typedef struct {
  uint8_t useNonLut;
} ns_ReciprocalKernel_Params;
SYN_ASSERT_SIZE(ns_ReciprocalKernel_Params, 1);

typedef struct {
  uint8_t useNonLut;
} ns_RsqrtKernel_Params;
SYN_ASSERT_SIZE(ns_RsqrtKernel_Params, 1);

typedef struct {
  float scale;
} ns_Scale_Params;
SYN_ASSERT_SIZE(ns_Scale_Params, 4);
