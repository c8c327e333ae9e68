// Mode numbers and the union shared by kernel parameter structs (synapse_kernel_params.h).
#pragma once

#include "../synapse_api_types.h"

// A 4-byte value read as float by kernels of float types and as integer by the others.
typedef union ns_Fint {
  float f;
  int32_t i;
} ns_Fint;

typedef enum ns_PoolingConvention {
  NS_POOLING_VALID = 0,
  NS_POOLING_FULL = 1,
  NS_POOLING_SAME = 2,
  NS_POOLING_FULL_PYTORCH = 3
} ns_PoolingConvention;
typedef enum ns_CastF32RoundMode {
  NS_CAST_ROUND_HALF_TO_EVEN = 0,
  NS_CAST_ROUND_DOWN = 1,
  NS_CAST_ROUND_UP = 2,
  NS_CAST_ROUND_STOCHASTIC = 3,
  NS_CAST_ROUND_TOWARD_ZERO = 4,
  NS_CAST_ROUND_DEFAULT = 5,
  NS_CAST_ROUND_HALF_AWAY_FROM_ZERO = 6,
  NS_CAST_ROUND_STOCHASTIC_FLUSH_TO_ZERO = 8
} ns_CastF32RoundMode;
typedef enum ns_CastSatMode {
  NS_CAST_NONE = 0,
  NS_CAST_CLIP = 1,
  NS_CAST_SATURATE = 2
} ns_CastSatMode;
typedef enum ns_ResizeInterpolationMode {
  NS_RESIZE_NEAREST = 0,
  NS_RESIZE_LINEAR = 1,
  NS_RESIZE_CUBIC = 2,
  NS_RESIZE_AREA = 3,
  NS_RESIZE_GAUSSIAN = 4
} ns_ResizeInterpolationMode;
typedef enum ns_ResizeNearestMode {
  NS_RESIZE_NEAREST_ROUND_DEFAULT = 0,
  NS_RESIZE_NEAREST_ROUND_PREFER_FLOOR = 1,
  NS_RESIZE_NEAREST_ROUND_PREFER_CEIL = 2,
  NS_RESIZE_NEAREST_FLOOR = 3,
  NS_RESIZE_NEAREST_CEIL = 4
} ns_ResizeNearestMode;
typedef enum ns_ResizeCoordinateTransformationMode {
  NS_RESIZE_COORD_HALF_PIXEL = 0,
  NS_RESIZE_COORD_PYTORCH_HALF_PIXEL = 1,
  NS_RESIZE_COORD_ALIGN_CORNERS = 2,
  NS_RESIZE_COORD_ASYMMETRIC = 3,
  NS_RESIZE_COORD_TF_HALF_PIXEL_FOR_NN = 4
} ns_ResizeCoordinateTransformationMode;
typedef enum ns_PadMode {
  NS_PAD_CONSTANT = 0,
  NS_PAD_REFLECT = 1,
  NS_PAD_EDGE = 2,
  NS_PAD_SYMMETRIC = 3
} ns_PadMode;
typedef enum ns_LossMode { NS_LOSS_MEAN = 0, NS_LOSS_SUM = 1, NS_LOSS_NONE = 2 } ns_LossMode;
typedef enum ns_KLDivMode { NS_KLDIV_SUM = 0, NS_KLDIV_MEAN = 1, NS_KLDIV_NONE = 2 } ns_KLDivMode;
typedef enum ns_CrossEntropyMode {
  NS_CROSS_ENTROPY_SUM = 0,
  NS_CROSS_ENTROPY_MEAN = 1,
  NS_CROSS_ENTROPY_NO_REDUCTION = 2
} ns_CrossEntropyMode;
typedef enum ns_KTensorType { NS_TOPK_K_NONE = 0, NS_TOPK_K_SHAPE_TENSOR = 1 } ns_KTensorType;
// ADD a+alpha*b, SUB a-alpha*b, RSUB b-alpha*a, CMUL a+alpha*b*c, CDIV a+alpha*b/c.
typedef enum ns_BinaryWithAlphaMode {
  NS_BINARY_ALPHA_ADD = 0,
  NS_BINARY_ALPHA_SUB = 1,
  NS_BINARY_ALPHA_RSUB = 2,
  NS_BINARY_ALPHA_CMUL = 3,
  NS_BINARY_ALPHA_CDIV = 4
} ns_BinaryWithAlphaMode;
typedef enum ns_ScatterReduceMode {
  NS_SCATTER_REDUCE_SUM = 0,
  NS_SCATTER_REDUCE_PROD = 1,
  NS_SCATTER_REDUCE_MEAN = 2,
  NS_SCATTER_REDUCE_AMAX = 3,
  NS_SCATTER_REDUCE_AMIN = 4
} ns_ScatterReduceMode;
typedef enum ns_ScatterNdUpdateMode {
  NS_SCATTER_ND_NON_DETERMINISTIC = 0,
  NS_SCATTER_ND_DETERMINISTIC = 1
} ns_ScatterNdUpdateMode;
// BLOCKWISE rotates halves, PAIRWISE adjacent pairs.
typedef enum ns_RotaryPosEmbeddingMode {
  NS_ROPE_BLOCKWISE = 0,
  NS_ROPE_PAIRWISE = 1
} ns_RotaryPosEmbeddingMode;
typedef enum ns_RmsNormBwdMode {
  NS_RMS_NORM_BWD_DEFAULT = 0,
  NS_RMS_NORM_BWD_STATIC_WIDTH_PARTITIONING = 1
} ns_RmsNormBwdMode;
typedef enum ns_SdpaSoftmaxMode {
  NS_SDPA_SOFTMAX_DEFAULT = 0,
  NS_SDPA_SOFTMAX_HF8_1B = 1,
  NS_SDPA_SOFTMAX_HF8_1C = 2
} ns_SdpaSoftmaxMode;
// Bits.
typedef enum ns_SdpaFlag {
  NS_SDPA_AMAX_S = 1 << 0,
  NS_SDPA_D_SCALE_Q = 1 << 8,
  NS_SDPA_D_SCALE_K = 1 << 9,
  NS_SDPA_D_SCALE_V = 1 << 10,
  NS_SDPA_Q_SCALE_S = 1 << 11,
  NS_SDPA_Q_SCALE_O = 1 << 12,
  NS_SDPA_D_SCALE_S = 1 << 13
} ns_SdpaFlag;
typedef enum ns_SoftmaxMode {
  NS_SOFTMAX_DEFAULT = 0,
  NS_SOFTMAX_HF8_1B = 1,
  NS_SOFTMAX_HF8_1C = 2,
  NS_SOFTMAX_HF8_2 = 3
} ns_SoftmaxMode;
typedef enum ns_GeluAccuracyMode {
  NS_GELU_DEFAULT = 0,
  NS_GELU_FAST_FP8_TABLE = 1,
  NS_GELU_FAST_FP8_COMPUTED = 2
} ns_GeluAccuracyMode;
typedef enum ns_SoftplusAccuracyMode {
  NS_SOFTPLUS_DEFAULT = 0,
  NS_SOFTPLUS_APPROXIMATE = 1
} ns_SoftplusAccuracyMode;
typedef enum ns_SigmoidFlavor {
  NS_SIGMOID_DEFAULT = 0,
  NS_SIGMOID_NO_SATURATION = 1
} ns_SigmoidFlavor;
typedef enum ns_DataTypeSize {
  NS_DATA_TYPE_8_BIT = 0,
  NS_DATA_TYPE_16_BIT = 1,
  NS_DATA_TYPE_32_BIT = 2
} ns_DataTypeSize;
typedef enum ns_RoundMode {
  NS_ROUND_HALF_AWAY_FROM_ZERO = 0,
  NS_ROUND_HALF_TO_EVEN = 1
} ns_RoundMode;
typedef enum ns_DivRoundMode {
  NS_DIV_ROUND_NONE = 0,
  NS_DIV_ROUND_TRUNC = 1,
  NS_DIV_ROUND_FLOOR = 2
} ns_DivRoundMode;
typedef enum ns_ShiftDir { NS_SHIFT_LEFT = 0, NS_SHIFT_RIGHT = 1 } ns_ShiftDir;
typedef enum ns_ShiftMode { NS_SHIFT_ARITHMETIC = 0, NS_SHIFT_LOGICAL = 1 } ns_ShiftMode;
typedef enum ns_SortDirection { NS_SORT_ASCENDING = 0, NS_SORT_DESCENDING = 1 } ns_SortDirection;
typedef enum ns_ScatterIndicesSizeControl {
  NS_SCATTER_INDICES_CONTROL = 0,
  NS_SCATTER_INDICES_NO_CONTROL = 1
} ns_ScatterIndicesSizeControl;
typedef enum ns_TypeOfP { NS_P_INT = 0, NS_P_FLOAT = 1 } ns_TypeOfP;
typedef enum ns_PosWeightMode { NS_POS_WEIGHT_OFF = 0, NS_POS_WEIGHT_ON = 1 } ns_PosWeightMode;
typedef enum ns_RepeatMode { NS_REPEAT_VECTOR = 0, NS_REPEAT_SCALAR = 1 } ns_RepeatMode;
typedef enum ns_RandomPoissonFlavor {
  NS_POISSON_WITHOUT_DISTRIBUTION = 0,
  NS_POISSON_WITH_DISTRIBUTION = 1
} ns_RandomPoissonFlavor;
typedef enum ns_ShrinkMode { NS_SHRINK_HARD = 0, NS_SHRINK_SOFT = 1 } ns_ShrinkMode;
typedef enum ns_MemcpyMode {
  NS_MEMCPY_DEFAULT = 0,
  NS_MEMCPY_1D = 1,
  NS_MEMCPY_IRF44 = 2
} ns_MemcpyMode;
typedef enum ns_UpsampleType {
  NS_UPSAMPLE_BILINEAR = 0,
  NS_UPSAMPLE_NEAREST = 1,
  NS_UPSAMPLE_TRILINEAR = 2
} ns_UpsampleType;
typedef enum ns_GridSampleInterpolation {
  NS_GRID_SAMPLE_NEAREST = 0,
  NS_GRID_SAMPLE_BILINEAR = 1,
  NS_GRID_SAMPLE_CUBIC = 2
} ns_GridSampleInterpolation;
typedef enum ns_GridSamplePad {
  NS_GRID_SAMPLE_PAD_ZEROS = 0,
  NS_GRID_SAMPLE_PAD_BORDER = 1,
  NS_GRID_SAMPLE_PAD_REFLECTION = 2
} ns_GridSamplePad;
typedef enum ns_DiagAlign {
  NS_DIAG_RIGHT_RIGHT = 0,
  NS_DIAG_RIGHT_LEFT = 1,
  NS_DIAG_LEFT_RIGHT = 2,
  NS_DIAG_LEFT_LEFT = 3
} ns_DiagAlign;
typedef enum ns_UpperTriangularMaskArea {
  NS_MASK_AREA_LOWER = 0,
  NS_MASK_AREA_UPPER = 1
} ns_UpperTriangularMaskArea;
typedef enum ns_ScaledMaskedSoftmaxExpMode {
  NS_SOFTMAX_EXP_TABLE = 0,
  NS_SOFTMAX_EXP_COMPUTED = 1,
  NS_SOFTMAX_EXP_EXPERIMENTAL = 15
} ns_ScaledMaskedSoftmaxExpMode;
// Bits.
typedef enum ns_ScaledMaskedTriangularSoftmaxMode {
  NS_TRIANGULAR_SOFTMAX_DEFAULT = 0,
  NS_TRIANGULAR_SOFTMAX_SLICED = 1,
  NS_TRIANGULAR_SOFTMAX_HF8_1B = 2,
  NS_TRIANGULAR_SOFTMAX_HF8_1C = 4,
  NS_TRIANGULAR_SOFTMAX_FUSED_SCALE = 8,
  NS_TRIANGULAR_SOFTMAX_SQUEEZED_FCD = 16,
  NS_TRIANGULAR_SOFTMAX_PADDED_LINES = 32
} ns_ScaledMaskedTriangularSoftmaxMode;
