// Parameter structs of vector-kernel nodes (synNodeCreate `params`), flat C layouts with the sizes
// and offsets of the vendor's structs; a node accepts every version listed here by its size. Modes
// are plain int32_t fields so that foreign bytes cannot form an invalid enum; the enums name their
// values. uint8_t fields are booleans (0 or 1) unless said otherwise. Axes and dims are FCD-first
// except where a comment says PyTorch order.
#pragma once

#include "synapse/include/synapse_api_types.h"

// A 4-byte value read as float by kernels of float types and as integer by the others.
typedef union ns_Fint {
  float f;
  int32_t i;
} ns_Fint;

// ---- modes ----------------------------------------------------------------------------------

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
// ---- constants and movement -----------------------------------------------------------------

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

// ---- elementwise ----------------------------------------------------------------------------

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

// ---- activations ----------------------------------------------------------------------------

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

// ---- softmax and normalisation --------------------------------------------------------------

typedef struct {
  int32_t dim;
} ns_Softmax_Params;
SYN_ASSERT_SIZE(ns_Softmax_Params, 4);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
} ns_Softmax_ParamsV3;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV3, 8);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
} ns_Softmax_ParamsV4;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV4, 12);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
} ns_Softmax_ParamsV5;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV5, 16);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
  int32_t triangularMode;
} ns_Softmax_ParamsV6;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV6, 20);

typedef struct {
  int32_t dim;
  int32_t dataTypeSize;  // ns_DataTypeSize
  int32_t validCountAxis;
  int32_t is_approximation;
  int32_t triangularMode;
  int32_t mode;  // ns_SoftmaxMode
} ns_Softmax_ParamsV7;
SYN_ASSERT_SIZE(ns_Softmax_ParamsV7, 24);

typedef struct {
  int32_t flavor;
} ns_CustomSoftmax_Params;
SYN_ASSERT_SIZE(ns_CustomSoftmax_Params, 4);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
} ns_ScaledMaskedSoftmax_Params;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_Params, 16);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
  int32_t mode;     // ns_ScaledMaskedTriangularSoftmaxMode
  int32_t allSlicesBase;
} ns_ScaledMaskedSoftmax_ParamsV2;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_ParamsV2, 24);

typedef struct {
  float invScaleAttn;
  uint32_t groupedBatchSize;
  uint32_t isUseMax;
  int32_t expMode;  // ns_ScaledMaskedSoftmaxExpMode
  int32_t mode;     // ns_ScaledMaskedTriangularSoftmaxMode
  int32_t allSlicesBase;
  int32_t isToZeroUpperTriangle;
} ns_ScaledMaskedSoftmax_ParamsV3;
SYN_ASSERT_SIZE(ns_ScaledMaskedSoftmax_ParamsV3, 28);

typedef struct {
  uint8_t epsValid;
  float eps;
} ns_LayerNormKernel_Params;
SYN_ASSERT_SIZE(ns_LayerNormKernel_Params, 8);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
} ns_LayerNormKernel_ParamsNorm;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsNorm, 16);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
  uint32_t normalizedShapeDims;
} ns_LayerNormKernel_ParamsPt;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsPt, 20);

typedef struct {
  uint8_t epsValid;
  float eps;
  int32_t NormAxisBmp;
  int32_t ParamAxisBmp;
  uint32_t normalizedShapeDims;
  uint8_t fastMath;
} ns_LayerNormKernel_ParamsRmsNorm;
SYN_ASSERT_SIZE(ns_LayerNormKernel_ParamsRmsNorm, 24);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
} ns_RmsNorm_Params;
SYN_ASSERT_SIZE(ns_RmsNorm_Params, 8);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
} ns_RmsNorm_ParamsV2;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV2, 12);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
  uint8_t useStages;
} ns_RmsNorm_ParamsV3;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV3, 16);

typedef struct {
  uint32_t bwdStage;
  int32_t numTpc;
  int32_t bwdMode;  // ns_RmsNormBwdMode
  uint8_t useStages;
  uint8_t fastMath;
  int32_t dummy;
} ns_RmsNorm_ParamsV4;
SYN_ASSERT_SIZE(ns_RmsNorm_ParamsV4, 20);

typedef struct {
  ns_Fint threshold;
  float momentum;
  float epsilon;
} ns_BatchNormKernel_Params;
SYN_ASSERT_SIZE(ns_BatchNormKernel_Params, 12);

typedef struct {
  ns_Fint threshold;
  float momentum;
  float epsilon;
  uint8_t isTraining;
} ns_BatchNormKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_BatchNormKernel_ParamsV2, 16);

typedef struct {
  float momentum;
  float eps;
} ns_InstanceNormTrainingKernel_Params;
SYN_ASSERT_SIZE(ns_InstanceNormTrainingKernel_Params, 8);

typedef struct {
  float momentum;
  float eps;
  int32_t enRelu;
} ns_InstanceNormTrainingKernel_ParamsRelu;
SYN_ASSERT_SIZE(ns_InstanceNormTrainingKernel_ParamsRelu, 12);

typedef struct {
  uint32_t N;
  uint32_t G;
  float epsilon;
} ns_NativeGroupNorm_Params;
SYN_ASSERT_SIZE(ns_NativeGroupNorm_Params, 12);

typedef struct {
  float p;
  float eps;
  int32_t dim;
} ns_LpNormKernel_Params;
SYN_ASSERT_SIZE(ns_LpNormKernel_Params, 12);

typedef struct {
  float p;
  float eps;
  int32_t dim;
  uint8_t epsMax;
} ns_LpNormKernel_ParamsNorm;
SYN_ASSERT_SIZE(ns_LpNormKernel_ParamsNorm, 16);

typedef struct {
  uint32_t NormAxisBmp;
} ns_NormMomentsKernel_Params;
SYN_ASSERT_SIZE(ns_NormMomentsKernel_Params, 4);

typedef struct {
  uint32_t NormAxisBmp;
  uint8_t useEstMean;
} ns_NormMomentsKernel_ParamsV2;
SYN_ASSERT_SIZE(ns_NormMomentsKernel_ParamsV2, 8);

typedef struct {
  float epsilon;
} ns_L2normKernel_Params;
SYN_ASSERT_SIZE(ns_L2normKernel_Params, 4);

// ---- reductions, scans, sorting -------------------------------------------------------------

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

// ---- indexing -------------------------------------------------------------------------------

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

// ---- resize and pooling ---------------------------------------------------------------------

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

// ---- random ---------------------------------------------------------------------------------

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

// ---- losses ---------------------------------------------------------------------------------

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

// ---- optimizers -----------------------------------------------------------------------------

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

// ---- matrix and attention -------------------------------------------------------------------

typedef struct {
  float alpha;
  float beta;
} ns_AddmmKernel_Params;
SYN_ASSERT_SIZE(ns_AddmmKernel_Params, 8);

typedef struct {
  float alpha;
  float beta;
} ns_AddmvKernel_Params;
SYN_ASSERT_SIZE(ns_AddmvKernel_Params, 8);

typedef struct {
  float alpha;
  float beta;
} ns_AddrKernel_Params;
SYN_ASSERT_SIZE(ns_AddrKernel_Params, 8);

typedef struct {
  uint8_t gradBias;
} ns_LinearBwdKernel_Params;
SYN_ASSERT_SIZE(ns_LinearBwdKernel_Params, 1);

typedef struct {
  uint8_t skip_other_transpose;
} ns_MatmulBwdKernel_Params;
SYN_ASSERT_SIZE(ns_MatmulBwdKernel_Params, 1);

typedef struct {
  uint32_t base;
  uint32_t offset;
} ns_RoPE_Params;
SYN_ASSERT_SIZE(ns_RoPE_Params, 8);

typedef struct {
  uint32_t offset;
} ns_RoPESt2_Params;
SYN_ASSERT_SIZE(ns_RoPESt2_Params, 4);

typedef struct {
  uint32_t offset;
  int32_t mode;  // ns_RotaryPosEmbeddingMode
} ns_RoPESt2_ParamsV2;
SYN_ASSERT_SIZE(ns_RoPESt2_ParamsV2, 8);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
} ns_Sdpa_Params;
SYN_ASSERT_SIZE(ns_Sdpa_Params, 24);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
  int32_t softmax_mode;  // ns_SdpaSoftmaxMode
} ns_Sdpa_ParamsV2;
SYN_ASSERT_SIZE(ns_Sdpa_ParamsV2, 28);

typedef struct {
  float scale;
  uint8_t is_causal;
  ns_DropoutKernel_ParamsOptionalMaskOut dropout;
  uint8_t is_inference;
  int32_t softmax_mode;  // ns_SdpaSoftmaxMode
  uint32_t flags;
} ns_Sdpa_ParamsV3;
SYN_ASSERT_SIZE(ns_Sdpa_ParamsV3, 32);

typedef struct {
  int32_t numLower;
  int32_t numUpper;
} ns_MatrixBandPartKernel_Params;
SYN_ASSERT_SIZE(ns_MatrixBandPartKernel_Params, 8);

typedef struct {
  int32_t numLower;
  int32_t numUpper;
  int32_t excludeDiag;
} ns_MatrixBandPartKernel_TriParams;
SYN_ASSERT_SIZE(ns_MatrixBandPartKernel_TriParams, 12);

typedef struct {
  float ratio;
  uint32_t seed;
  uint32_t allSlicesBase;
  int32_t mode;  // ns_ScaledMaskedTriangularSoftmaxMode
  uint8_t isSeedH2D;
  uint8_t isAllSlicesBaseH2D;
  uint8_t isResetUpperTriangle;
} ns_ScaledTriangularDropoutMaskKernel_Params;
SYN_ASSERT_SIZE(ns_ScaledTriangularDropoutMaskKernel_Params, 20);

typedef struct {
  int32_t maskArea;  // ns_UpperTriangularMaskArea
  uint32_t allSlicesBase;
  int32_t slicedMode;  // ns_ScaledMaskedTriangularSoftmaxMode
} ns_UpperTriangularKernel_Params;
SYN_ASSERT_SIZE(ns_UpperTriangularKernel_Params, 12);

typedef struct {
  float scale;
  int32_t zero_point;
} ns_QuantizationPerTensor_Params;
SYN_ASSERT_SIZE(ns_QuantizationPerTensor_Params, 8);

typedef struct {
  float scale;
  int32_t zero_point;
  int32_t quant_min;
  int32_t quant_max;
} ns_QuantizationPerTensor_ParamsV2;
SYN_ASSERT_SIZE(ns_QuantizationPerTensor_ParamsV2, 16);

typedef struct {
  int32_t axis;
} ns_QuantizationPerChannel_Params;
SYN_ASSERT_SIZE(ns_QuantizationPerChannel_Params, 4);

typedef struct {
  int32_t axis;
  int32_t quant_min;
  int32_t quant_max;
} ns_QuantizationPerChannel_ParamsV2;
SYN_ASSERT_SIZE(ns_QuantizationPerChannel_ParamsV2, 12);
