// Parameter structs of nodes for constants and movement; rules in synapse_kernel_params.h.
#pragma once

#include "modes.h"

typedef struct {
  ns_Fint constant;
} ns_ConstantKernel_Params;
SYN_ASSERT_SIZE(ns_ConstantKernel_Params, 4);

typedef struct {
  int32_t const_low;
  int32_t const_high;
} ns_ConstantKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_ConstantKernel_ParamsV2, 8);

typedef struct {
  ns_Fint start;
  ns_Fint limit;
  ns_Fint delta;
} ns_RangeKernel_Params;
SYN_ASSERT_SIZE(ns_RangeKernel_Params, 12);

typedef struct {
  int32_t round_mode;  // ns_CastF32RoundMode
} ns_CastKernel_Params;
SYN_ASSERT_SIZE(ns_CastKernel_Params, 4);

typedef struct {
  int32_t round_mode;  // ns_CastF32RoundMode
  uint32_t seed;
} ns_CastKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_CastKernel_ParamsV2, 8);

typedef struct {
  int32_t round_mode;  // ns_CastF32RoundMode
  uint32_t seed;
  int32_t mode;  // ns_CastSatMode
} ns_CastKernel_ParamsV3;
SYN_ASSERT_SIZE(ns_CastKernel_ParamsV3, 12);

typedef struct {
  int32_t round_mode;  // ns_CastF32RoundMode
  uint32_t seed;
  int32_t mode;  // ns_CastSatMode
  uint8_t safeCastCheck;
} ns_CastKernel_ParamsV4;
SYN_ASSERT_SIZE(ns_CastKernel_ParamsV4, 16);

// pads[i] = before dim i, pads[i + rank] = after it.
typedef struct {
  ns_Fint value;
  uint32_t pads[10];
} ns_PadKernel_Params;
SYN_ASSERT_SIZE(ns_PadKernel_Params, 44);

typedef struct {
  ns_Fint value;
  uint32_t pads[10];
  int32_t mode;  // ns_PadMode
} ns_PadKernelEx_Params;
SYN_ASSERT_SIZE(ns_PadKernelEx_Params, 48);

typedef struct {
  ns_Fint value;
  uint32_t pads[10];
  int32_t mode;  // ns_PadMode
  uint32_t output_size_alignment[5];
} ns_PadKernelEx_ParamsWithAlign;
SYN_ASSERT_SIZE(ns_PadKernelEx_ParamsWithAlign, 68);

typedef struct {
  int32_t repeat[4];
} ns_TileKernel_Params;
SYN_ASSERT_SIZE(ns_TileKernel_Params, 16);

typedef struct {
  int32_t repeat[5];
} ns_TileKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_TileKernel_ParamsV2, 20);

typedef struct {
  int32_t axis;
} ns_RepeatKernelGaudiTF_Params;
SYN_ASSERT_SIZE(ns_RepeatKernelGaudiTF_Params, 4);

typedef struct {
  int32_t repeats;
  int32_t axis;
} ns_RepeatKernel_Params;
SYN_ASSERT_SIZE(ns_RepeatKernel_Params, 8);

typedef struct {
  int32_t repeats;
  int32_t axis;
  int32_t scalarAPIMode;  // ns_RepeatMode
} ns_RepeatKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_RepeatKernel_ParamsV2, 12);

typedef struct {
  int32_t axis;
} ns_FlipKernel_Params;
SYN_ASSERT_SIZE(ns_FlipKernel_Params, 4);

typedef struct {
  int32_t dims[5];
  uint32_t num_dims;
} ns_FlipKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_FlipKernel_ParamsV2, 24);

typedef struct {
  int32_t shifts[8];
  int32_t dims[8];
} ns_RollKernel_Params;
SYN_ASSERT_SIZE(ns_RollKernel_Params, 64);

typedef struct {
  int32_t axis;
  int32_t depth;
  float on_value;
  float off_value;
} ns_OneHotKernel_Params;
SYN_ASSERT_SIZE(ns_OneHotKernel_Params, 16);

typedef struct {
  int32_t axis;
  int32_t depth;
  float on_value;
  float off_value;
  int32_t is_out_reshaped;
} ns_OneHotKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_OneHotKernel_ParamsV2, 20);

typedef struct {
  int32_t mode;  // ns_MemcpyMode
} ns_Memcpy_Params;
SYN_ASSERT_SIZE(ns_Memcpy_Params, 4);

typedef struct {
  int32_t axis;
} ns_BroadcastNonFcd_Params;
SYN_ASSERT_SIZE(ns_BroadcastNonFcd_Params, 4);

typedef struct {
  int32_t axis;
  int32_t cguidAfterTile;
} ns_BroadcastNonFcd_ParamsV2;
SYN_ASSERT_SIZE(ns_BroadcastNonFcd_ParamsV2, 8);

typedef struct {
  uint32_t upscale_factor;
} ns_PixelShuffleKernel_Params;
SYN_ASSERT_SIZE(ns_PixelShuffleKernel_Params, 4);

typedef struct {
  int32_t kMin;
  int32_t kMax;
  int32_t rows;
  int32_t cols;
  float pad;
  int32_t align;  // ns_DiagAlign
} ns_MatrixDiag_Params;
SYN_ASSERT_SIZE(ns_MatrixDiag_Params, 24);
