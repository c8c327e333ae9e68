// Types of the Synapse C API: constants, handles, enums and structs with the binary layout of the
// 1.19 to 1.21 libraries on x86-64 Linux. Plain C11 and C++. Every size and offset that crosses the
// border is pinned by an assertion at the end of this file.
//
// Shapes are FCD-first everywhere: sizes[0] is the fastest-changing dimension, i.e. PyTorch's last.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define SYN_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define SYN_ALIGNAS(bytes) alignas(bytes)
// Any 32-bit number may arrive from a caller or a file; only with a fixed underlying type may a C++
// enum hold a number that no enumerator has.
#define SYN_ENUM_TYPE : int32_t
#else
#define SYN_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define SYN_ALIGNAS(bytes) _Alignas(bytes)
#define SYN_ENUM_TYPE
#endif
#define SYN_ASSERT_SIZE(type, bytes) SYN_STATIC_ASSERT(sizeof(type) == (bytes), "size of " #type)
#define SYN_ASSERT_OFFSET(type, field, bytes) \
  SYN_STATIC_ASSERT(offsetof(type, field) == (bytes), "offset of " #type "." #field)

// ---- constants ------------------------------------------------------------------------------

#define HABANA_DIM_MAX 25
#define MAX_DIMENSIONS_NUM 5
#define SYN_MAX_TENSOR_DIM MAX_DIMENSIONS_NUM
#define SYN_GAUDI_MAX_TENSOR_DIM 8
#define MAX_CONV_DIMS 3
#define ENQUEUE_TENSOR_NAME_MAX_SIZE 1024
#define MAX_LAYOUT_SIZE 20
#define STATUS_DESCRIPTION_MAX_SIZE 56
#define MAX_USER_PARAMS_SIZE 128  // documentary: larger parameter structs are in use
#define MAX_TENSOR_NR 16
#define MAX_NUM_OF_DEVICES_PER_HOST 16  // 8 in 1.19
#define SYN_NUM_DATA_TYPES 6
#define MAX_EINSUM_EQUATION_LENGTH 50
#define EXP_BIAS_143_DEFAULT 7
#define SYN_FLAGS_TENSOR_NAME 1  // launch flag: table entries are found by name, not by id
#define INVALID_SECTION_ID 0xFFFFFFFFu
#define INVALID_CONST_SECTION_DATA (~(uint64_t)0)
#define TENSOR_INVALID_ID (~(uint64_t)0)
#define SYN_INVALID_DEVICE_ID 0xFFFFFFFFu
#define INVALID_MODULE_ID 0xFFFFFFFFu
#define INVALID_BATCH_POS 0xFFFFFFFFu
#define INVALID_TENSOR_INDEX 0xFFFFFFFFu
#define SIG_HANDLE_INVALID 0xFFFFFFFFu

// A launch-table tensor id is index | kind << 56 with kind a synTensorType.
#define SYN_TENSOR_ID_KIND_SHIFT 56
#define SYN_TENSOR_ID_INDEX_MASK 0x00FFFFFFFFFFFFFFull
#define SYN_TENSOR_ID(index, kind) \
  ((uint64_t)(index) | ((uint64_t)(kind) << SYN_TENSOR_ID_KIND_SHIFT))

// ---- handles and integers -------------------------------------------------------------------

typedef struct internalTensor* synTensor;
typedef struct InternalGraphHandle* synGraphHandle;
typedef struct InternalRecipeHandle* synRecipeHandle;
typedef struct SectionHandleExternal* synSectionHandle;
typedef struct InternalStreamHandle* synStreamHandle;
typedef struct EventInterfaceExternal* synEventHandle;
typedef struct ErrorInterfaceExternal* synErrorHandle;  // since 1.21

typedef uint32_t synDeviceId;
typedef uint32_t synModuleId;
typedef uint32_t synSectionId;
typedef uint64_t synNodeId;
typedef uint64_t TSize;
typedef uint64_t TStride;
typedef uint64_t tensor_size_t;
typedef int64_t TOffset;

// ---- enums ----------------------------------------------------------------------------------

typedef enum synStatus SYN_ENUM_TYPE {
  synSuccess = 0,
  synInvalidArgument = 1,
  synCbFull = 2,
  synOutOfHostMemory = 3,
  synOutOfDeviceMemory = 4,
  synObjectAlreadyInitialized = 5,
  synObjectNotInitialized = 6,
  synCommandSubmissionFailure = 7,
  synNoDeviceFound = 8,
  synDeviceTypeMismatch = 9,
  synFailedToInitializeCb = 10,
  synFailedToFreeCb = 11,
  synFailedToMapCb = 12,
  synFailedToUnmapCb = 13,
  synFailedToAllocateDeviceMemory = 14,
  synFailedToFreeDeviceMemory = 15,
  synFailedNotEnoughDevicesFound = 16,
  synDeviceReset = 17,
  synUnsupported = 18,
  synWrongParamsFile = 19,
  synDeviceAlreadyAcquired = 20,
  synNameIsAlreadyUsed = 21,
  synBusy = 22,
  synAllResourcesTaken = 23,
  synUnavailable = 24,
  synInvalidTensorDimensions = 25,
  synFail = 26,
  synOutOfResources = 27,
  synUninitialized = 28,
  synAlreadyInitialized = 29,
  synFailedSectionValidation = 30,
  synSynapseTerminated = 31,
  synAssertAsync = 32,
  synInvalidEventHandle = 33,
  synMappingNotFound = 34,
  synFailedDynamicPatching = 35,
  synFailedStaticPatching = 36,
  synFailedToSubmitWorkload = 37,
  synInvalidSectionsDefinition = 38,
  synInvalidTensorProperties = 39,
  synFailHccl = 40,
  synFailedToCollectTime = 41,
  synTimeout = 42,
  synResourceBadUsage = 43,
  // since 1.21
  synNullPtr = 44,
  synFailFuser = 45,
  synFailComplexGuid = 46,
  synFailTpcKernels = 47,
  synStatusLast = synFailTpcKernels,
} synStatus;

typedef enum synDeviceType SYN_ENUM_TYPE {
  synDeviceGreco = 1,
  synDeviceGoya2 = synDeviceGreco,
  synDeviceGaudi = 2,
  synDeviceGaudi2 = 4,
  synDeviceGaudi3 = 5,
  synDeviceEmulator = 6,
  synDeviceTypeInvalid = 7,
  synDeviceTypeSize = 8,
} synDeviceType;

// Bit flags. There is no boolean type: booleans are int8 with 0 and 1.
typedef enum synDataType SYN_ENUM_TYPE {
  syn_type_na = 0,
  syn_type_int8 = 1,
  syn_type_fixed = syn_type_int8,
  syn_type_bf16 = 1 << 1,
  syn_type_float = 1 << 2,
  syn_type_single = syn_type_float,
  syn_type_int16 = 1 << 3,
  syn_type_int32 = 1 << 4,
  syn_type_uint8 = 1 << 5,
  syn_type_int4 = 1 << 6,
  syn_type_uint4 = 1 << 7,
  syn_type_fp16 = 1 << 8,
  syn_type_uint16 = 1 << 9,
  syn_type_uint32 = 1 << 10,
  syn_type_tf32 = 1 << 11,
  syn_type_hb_float = 1 << 12,
  syn_type_fp8_143 = 1 << 13,
  syn_type_fp8_152 = 1 << 14,
  syn_type_int64 = 1 << 15,
  syn_type_uint64 = 1 << 16,
  syn_type_ufp16 = 1 << 17,
  syn_type_packed_nf4 = 1 << 18,  // since 1.21
  syn_type_max = (1 << 18) + 1,
} synDataType;

typedef enum synTensorType SYN_ENUM_TYPE {
  DATA_TENSOR = 0,
  SHAPE_TENSOR = 1,
  OUTPUT_DESCRIBING_SHAPE_TENSOR = SHAPE_TENSOR,
  INPUT_DESCRIBING_SHAPE_TENSOR_DEPRECATED = 2,
  DATA_TENSOR_DYNAMIC = 3,
  DEVICE_SHAPE_TENSOR = 4,
  HOST_SHAPE_TENSOR = 5,
  HOST_TO_DEVICE_TENSOR = 6,
  TENSOR_TYPE_MAX = 7,
  TENSOR_TYPE_INVALID = TENSOR_TYPE_MAX,
} synTensorType;

typedef enum synDmaDir SYN_ENUM_TYPE {
  HOST_TO_DRAM = 0,
  DRAM_TO_HOST = 1,
  DRAM_TO_DRAM = 2,
  DIRECTION_ENUM_MAX = 3,
} synDmaDir;

typedef enum synMemFlags SYN_ENUM_TYPE { synMemHost = 1, synMemDevice = 2 } synMemFlags;

typedef enum synGeometryType SYN_ENUM_TYPE {
  synGeometryMinSizes = 0,
  synGeometryMaxSizes = 1,
  synGeometrySizes = synGeometryMaxSizes,
  synGeometryDims = 2,
} synGeometryType;

typedef enum synDeviceAttribute SYN_ENUM_TYPE {
  DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS = 0,
  DEVICE_ATTRIBUTE_DRAM_BASE_ADDRESS = 1,
  DEVICE_ATTRIBUTE_SRAM_SIZE = 2,
  DEVICE_ATTRIBUTE_DRAM_SIZE = 3,
  DEVICE_ATTRIBUTE_DRAM_FREE_SIZE = 4,
  DEVICE_ATTRIBUTE_TPC_ENABLED_MASK = 5,
  DEVICE_ATTRIBUTE_DRAM_ENABLED = 6,
  DEVICE_ATTRIBUTE_DEVICE_TYPE = 7,
  DEVICE_ATTRIBUTE_CLK_RATE = 8,
  DEVICE_ATTRIBUTE_MAX_RMW_SIZE = 9,
  DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE = 10,
  DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE = 11,
  DEVICE_ATTRIBUTE_MAX_DIMS = 12,
} synDeviceAttribute;

typedef enum synRecipeAttribute SYN_ENUM_TYPE {
  RECIPE_ATTRIBUTE_WORKSPACE_SIZE = 0,
  RECIPE_ATTRIBUTE_NUM_PERSISTENT_TENSORS = 1,
  RECIPE_ATTRIBUTE_HOST_MEM_SIZE = 2,
  RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS = 3,
  RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE = 4,
  RECIPE_ATTRIBUTE_CONST_SECTIONS_SIZE = 5,
  RECIPE_ATTRIBUTE_DEVICE_MEMORY_SIZE = 6,
  RECIPE_ATTRIBUTE_MAX = 7,
} synRecipeAttribute;

typedef enum synSectionProp SYN_ENUM_TYPE {
  SECTION_SIZE = 0,
  SECTION_DATA = 1,
  IS_CONST = 2
} synSectionProp;

typedef enum synGraphAttribute SYN_ENUM_TYPE {
  GRAPH_ATTRIBUTE_INFERENCE = 0,
  GRAPH_ATTRIBUTE_QUANTIZATION = 1,
  GRAPH_ATTRIBUTE_BACKOFF_FACTOR = 2,
  // since 1.21
  GRAPH_ATTRIBUTE_IS_HW_ALIGNED_SCALE = 3,
  GRAPH_ATTRIBUTE_SCALE_METHOD_HASH_ID = 4,
  GRAPH_ATTRIBUTE_MAX = 5,
} synGraphAttribute;

typedef enum synQuantizationProperty SYN_ENUM_TYPE {
  SYN_QUANT_DYNAMIC_RANGE = 0,
  SYN_QUANT_METADATA = 1,
  SYN_FP_QUANT_METADATA = 2,
  SYN_QUANT_FLAGS = 3,
  SYN_QUANT_PC_DYNAMIC_RANGE = 4,
} synQuantizationProperty;

typedef enum synMemoryAttribute SYN_ENUM_TYPE {
  MEMORY_ATTRIBUTE_DEVICE = 1,
  MEMORY_ATTRIBUTE_HOST = 2,
  MEMORY_ATTRIBUTE_SRAM = 4,
  MEMORY_ATTRIBUTE_PERSISTENT = 8,
} synMemoryAttribute;

typedef enum eventCreateFlags SYN_ENUM_TYPE { EVENT_COLLECT_TIME = 1 } eventCreateFlags;

typedef enum synRoundingMode SYN_ENUM_TYPE {
  synRoundToNearest = 0,
  synRoundToZero = 1,
  synRoundUp = 2,
  synRoundDown = 3,
  synStochasticRounding = 4,
  synRoundAwayFromZero = 5,
  synStochasticRoundingAndNearest = 6,
} synRoundingMode;

typedef enum synTraceType SYN_ENUM_TYPE {
  synTraceAll = 1,
  synTraceHost = 2,
  synTraceDevice = 3,
  synTraceTypeSize = 4,
} synTraceType;

typedef enum synTraceFormat SYN_ENUM_TYPE {
  synTraceFormatTEF = 1,
  synTraceFormatSize = 2
} synTraceFormat;

typedef enum synTraceEventArgType SYN_ENUM_TYPE {
  SYN_TRACE_ARG_UINT64 = 0,
  SYN_TRACE_ARG_CHAR_PTR = 1,
  SYN_TRACE_ARG_DOUBLE = 2,
} synTraceEventArgType;

typedef enum synStreamPriority SYN_ENUM_TYPE {
  synStreamPriorityHigh = 0,
  synStreamPriorityLow = 1,
  synStreamPriorityNotSet = 2,
} synStreamPriority;

typedef enum synTensorProperty SYN_ENUM_TYPE {
  synTensorPropertySection = 1,
  synTensorPropertyHostPtr = 2,
  synTensorPropertyQuantMetadata = 4,
  synTensorPropertyDynamicRange = 8,
  synTensorPropertyFlags = 16,
  synTensorPropertyDeviceDataType = 32,
  synTensorPropertyDeviceLayout = synTensorPropertyDeviceDataType,
  synTensorPropertyName = 64,
  synTensorPropertySectionOffset = 128,
  synTensorPropertyGeometryMin = 256,
  synTensorPropertyGeometryMax = 512,
  synTensorPropertyGeometryDim = 1024,
  synTensorPropertyType = 2048,
  synTensorPropertyPermutation = 4096,
  synTensorPropertyFpQuantMetadata = 8192,
  synTensorInternalNoProducer = 16384,
  synTensorPropertyPCDynamicRange = 32768,
} synTensorProperty;

typedef enum synConvolutionPaddingType SYN_ENUM_TYPE {
  PADDING_EXPLICIT = 0,
  PADDING_SAME = 1,
} synConvolutionPaddingType;

// Positions in the arrays of synConvolution3DParams.
enum {
  CONV_KERNEL_WIDTH = 0,
  CONV_KERNEL_HEIGHT = 1,
  CONV_KERNEL_DEPTH = 2,
  CONV_KERNEL_SIZE = 3,
  CONV_STRIDE_WIDTH = 0,
  CONV_STRIDE_HEIGHT = 1,
  CONV_STRIDE_DEPTH = 2,
  CONV_STRIDE_SIZE = 3,
  CONV_DIL_WIDTH = 0,
  CONV_DIL_HEIGHT = 1,
  CONV_DIL_DEPTH = 2,
  CONV_DIL_SIZE = 3,
  CONV_PAD_LEFT = 0,
  CONV_PAD_RIGHT = 1,
  CONV_PAD_TOP = 2,
  CONV_PAD_BOTTOM = 3,
  CONV_PAD_FRONT = 4,
  CONV_PAD_BACK = 5,
  CONV_PAD_SIZE = 6,
};

// Used as plain numbers in synTransposeParams.permutation.
typedef enum TransposePermutationDim SYN_ENUM_TYPE {
  TPD_Channel = 0,
  TPD_Width = 1,
  TPD_Height = 2,
  TPD_Depth = 3,
  TPD_4Dim_Batch = 3,
  TPD_Batch = 4,
  TPD_Weights_K = 0,
  TPD_Weights_C = 1,
  TPD_Weights_S = 2,
  TPD_Weights_R = 3,
  TPD_Weights_Q = 4,
  TBD_4DimSize = 4,
  TBD_5DimSize = 5,
  TBD_6DimSize = 6,
  TBD_7DimSize = 7,
} TransposePermutationDim;

// ---- launch and recipe tables ---------------------------------------------------------------

typedef struct synLaunchTensorInfo {
  const char* tensorName;   // may be null when ids are used
  uint64_t pTensorAddress;  // device address; host address for host-to-device tensors
  synTensorType tensorType;
  TSize tensorSize[HABANA_DIM_MAX];  // read for dynamic tensors only
  uint64_t tensorId;                 // TENSOR_INVALID_ID: the entry is skipped
} synLaunchTensorInfo;
typedef synLaunchTensorInfo synLaunchTensorInfoExt;

typedef struct synRetrievedLaunchTensorInfo {
  char tensorName[ENQUEUE_TENSOR_NAME_MAX_SIZE];
  uint64_t tensorId;
  synTensorType tensorType;
  synDataType tensorDataType;
  uint32_t tensorDims;
  TSize tensorMaxSize[HABANA_DIM_MAX];
  TSize tensorMinSize[HABANA_DIM_MAX];
  uint8_t tensorPermutation[HABANA_DIM_MAX];
  uint32_t tensorSectionId;
  uint64_t tensorOffsetInSection;
  uint8_t isInput;
  uint32_t reserved[10];
} synRetrievedLaunchTensorInfo;
typedef synRetrievedLaunchTensorInfo synRetrievedLaunchTensorInfoExt;

typedef struct TensorMetadataInfo {
  const char* tensorName;
  uint32_t elementType;
  double zp;
  double scale;
  uint32_t dimensions;
  TSize dimensionsSize[HABANA_DIM_MAX];
  uint64_t roiSizeInBytes;
  uint16_t batchSize;
  uint8_t isInput;
  char layout[MAX_LAYOUT_SIZE];
  uint32_t sectionId;
  uint64_t offsetInSection;
} TensorMetadataInfo;
typedef TensorMetadataInfo TensorMetadataInfoExt;

// ---- tensors and nodes ----------------------------------------------------------------------

typedef struct synTensorGeometry {
  TSize sizes[HABANA_DIM_MAX];
  uint32_t dims;
} synTensorGeometry;
typedef synTensorGeometry synTensorGeometryExt;

typedef struct synTensorDeviceLayout {
  uint32_t strides[HABANA_DIM_MAX - 1];
  synDataType deviceDataType;
} synTensorDeviceLayout;

typedef struct synTensorDeviceFullLayout {
  uint32_t strides[HABANA_DIM_MAX];  // must be 0
  synDataType deviceDataType;
} synTensorDeviceFullLayout;

typedef struct synTensorPermutation {
  uint8_t permutation[HABANA_DIM_MAX];
  uint8_t dims;  // 0 clears
} synTensorPermutation;

typedef struct synTensorHandleMap {
  synTensor origHandle;
  synTensor newHandle;
} synTensorHandleMap;

typedef struct synNodeHandleMap {
  synNodeId origHandle;
  synNodeId newHandle;
} synNodeHandleMap;

typedef struct synUserExecOrder {
  uint32_t groupId;
  uint32_t executionOrderedIndex;
} synUserExecOrder;

typedef struct synUserProgrammability {
  synUserExecOrder* userExecOrder;
} synUserProgrammability;

typedef union synGraphAttributeVal {
  uint64_t iAttrVal;
  double dAttrVal;
} synGraphAttributeVal;

// ---- devices --------------------------------------------------------------------------------

typedef struct synDeviceInfo {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
} synDeviceInfo;

typedef struct synDeviceInfoV2 {
  uint64_t sramBaseAddress;
  uint64_t dramBaseAddress;
  uint32_t sramSize;
  uint64_t dramSize;
  uint64_t tpcEnabledMask;
  uint8_t dramEnabled;
  uint32_t deviceId;
  uint32_t fd;
  synDeviceType deviceType;
  uint8_t deviceIndex;
  uint64_t globalHbmBaseAddress;  // reserved in 1.19
} synDeviceInfoV2;

// ---- quantisation ---------------------------------------------------------------------------

typedef struct synQuantDynamicRange {
  double min;
  double max;
} synQuantDynamicRange;

typedef struct synPerChannelDynamicRange {
  synQuantDynamicRange* ranges;
  uint32_t numChannels;
} synPerChannelDynamicRange;

typedef struct synQuantZPScale {
  double zp;
  double scale;
} synQuantZPScale;

typedef struct synQuantMetadata {
  synDataType dataType;
  synQuantZPScale* zpScales;
  uint32_t numZPScales;
} synQuantMetadata;

typedef struct synFpQuantParam {
  double scale;
  uint32_t expBias;
} synFpQuantParam;

typedef struct synFpQuantMetadata {
  synDataType dataType;
  synFpQuantParam* fpQuantParams;
  uint32_t numFpQuantParams;
} synFpQuantMetadata;

typedef struct synQuantFlags {
  uint8_t enablePerChannelQuant;
  uint8_t isSparsifiedWeights;
  uint8_t isWeights;
} synQuantFlags;

// ---- payloads of host-to-device tensors -----------------------------------------------------

typedef struct synDynamicStridedDmaH2dTensor {
  TSize num_strides;
  TSize offset;
  TSize strides[6];
} synDynamicStridedDmaH2dTensor;

typedef struct synDynamicSliceDmaH2dTensor {
  TSize dims;
  TSize steps[5];
  TSize starts[5];
} synDynamicSliceDmaH2dTensor;

// ---- profiler -------------------------------------------------------------------------------

typedef struct synTraceEventArg {
  const char* key;
  synTraceEventArgType type;
  union {
    const char* str;
    uint64_t u64;
    double f64;
  } value;
} synTraceEventArg;

typedef struct synTraceEventExtraArgs {
  uint8_t count;
  const synTraceEventArg* args;
} synTraceEventExtraArgs;

typedef union synTraceEventArguments {
  struct {
    const char* dataType;
    const char* operation;
    uint16_t recipeId;
    const char* recipeName;
    uint64_t streamHandle;
    uint64_t eventHandle;
    synTraceEventExtraArgs extraArgs;
  } event;
  struct {
    double minimum;
    double maximum;
    double average;
    uint16_t matches;
  } counter;
  struct {
    const char* name;
    const char* group;
  } metadata;
  uint64_t value;
  double value_double;  // since 1.21
  struct {
    double fullWritesBlocks;
    double partialWritesBlocks;
    double emptyBlocks;
  } writes;  // since 1.21
  char reserved[128];
} synTraceEventArguments;

typedef struct synTraceEvent {
  const char* name;
  const char* category;
  char type;  // 'X' complete, 'M' metadata, 'C' counter ... of the Trace Event Format
  SYN_ALIGNAS(16) long double timestamp;  // microseconds
  long double duration;                   // microseconds
  uint32_t engineType;
  uint32_t engineIndex;
  uint64_t contextId;
  synTraceEventArguments arguments;
} synTraceEvent;

// ---- obsolete creation calls ----------------------------------------------------------------

typedef struct synQuantizationParams {
  double m_zp;
  double m_scale;
  uint32_t m_expBias;
  synDataType m_qDataType;
  uint32_t pad;
} synQuantizationParams;

typedef struct synPerChannelQuantizationParams {
  double* m_pcZps;
  double* m_pcScales;
  uint32_t* m_pcExpBias;
  uint32_t m_numChannels;
  synDataType m_qDataType;
} synPerChannelQuantizationParams;

typedef struct synTensorDynamicRange {
  double min;
  double max;
  bool isSet;
} synTensorDynamicRange;

typedef struct synTensorDescriptor {
  uint32_t m_batchPos;
  synDataType m_dataType;
  uint32_t m_dims;
  uint32_t m_sizes[SYN_MAX_TENSOR_DIM];
  synQuantizationParams m_quantizationParams[SYN_NUM_DATA_TYPES];
  void* m_ptr;
  bool m_isWeights;
  bool m_isQuantized;
  const char* m_name;
  uint32_t m_strides[SYN_MAX_TENSOR_DIM];
  bool m_isOutput;
  bool m_enablePerChannelQuant;
  synPerChannelQuantizationParams m_perChannelQuantizationParams[SYN_NUM_DATA_TYPES];
  bool m_isInput;
  bool m_isStatic;
  uint32_t m_minSizes[SYN_MAX_TENSOR_DIM];
  synTensorType m_tensorType;
  synTensorDynamicRange m_dynamicRange;
  bool m_isSparsityWeights;
} synTensorDescriptor;

// ---- layout assertions ----------------------------------------------------------------------

SYN_ASSERT_SIZE(bool, 1);
SYN_ASSERT_SIZE(synStatus, 4);
SYN_ASSERT_SIZE(synDataType, 4);
SYN_ASSERT_SIZE(synTensorType, 4);
SYN_ASSERT_SIZE(synDeviceType, 4);

SYN_ASSERT_SIZE(synLaunchTensorInfo, 232);
SYN_ASSERT_OFFSET(synLaunchTensorInfo, pTensorAddress, 8);
SYN_ASSERT_OFFSET(synLaunchTensorInfo, tensorType, 16);
SYN_ASSERT_OFFSET(synLaunchTensorInfo, tensorSize, 24);
SYN_ASSERT_OFFSET(synLaunchTensorInfo, tensorId, 224);

SYN_ASSERT_SIZE(synRetrievedLaunchTensorInfo, 1536);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorId, 1024);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorType, 1032);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorDataType, 1036);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorDims, 1040);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorMaxSize, 1048);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorMinSize, 1248);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorPermutation, 1448);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorSectionId, 1476);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, tensorOffsetInSection, 1480);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, isInput, 1488);
SYN_ASSERT_OFFSET(synRetrievedLaunchTensorInfo, reserved, 1492);

SYN_ASSERT_SIZE(TensorMetadataInfo, 288);
SYN_ASSERT_OFFSET(TensorMetadataInfo, elementType, 8);
SYN_ASSERT_OFFSET(TensorMetadataInfo, zp, 16);
SYN_ASSERT_OFFSET(TensorMetadataInfo, scale, 24);
SYN_ASSERT_OFFSET(TensorMetadataInfo, dimensions, 32);
SYN_ASSERT_OFFSET(TensorMetadataInfo, dimensionsSize, 40);
SYN_ASSERT_OFFSET(TensorMetadataInfo, roiSizeInBytes, 240);
SYN_ASSERT_OFFSET(TensorMetadataInfo, batchSize, 248);
SYN_ASSERT_OFFSET(TensorMetadataInfo, isInput, 250);
SYN_ASSERT_OFFSET(TensorMetadataInfo, layout, 251);
SYN_ASSERT_OFFSET(TensorMetadataInfo, sectionId, 272);
SYN_ASSERT_OFFSET(TensorMetadataInfo, offsetInSection, 280);

SYN_ASSERT_SIZE(synTensorGeometry, 208);
SYN_ASSERT_OFFSET(synTensorGeometry, dims, 200);
SYN_ASSERT_SIZE(synTensorDeviceLayout, 100);
SYN_ASSERT_OFFSET(synTensorDeviceLayout, deviceDataType, 96);
SYN_ASSERT_SIZE(synTensorDeviceFullLayout, 104);
SYN_ASSERT_OFFSET(synTensorDeviceFullLayout, deviceDataType, 100);
SYN_ASSERT_SIZE(synTensorPermutation, 26);
SYN_ASSERT_OFFSET(synTensorPermutation, dims, 25);
SYN_ASSERT_SIZE(synTensorHandleMap, 16);
SYN_ASSERT_SIZE(synNodeHandleMap, 16);
SYN_ASSERT_SIZE(synUserExecOrder, 8);
SYN_ASSERT_SIZE(synUserProgrammability, 8);
SYN_ASSERT_SIZE(synGraphAttributeVal, 8);

SYN_ASSERT_SIZE(synDeviceInfo, 56);
SYN_ASSERT_OFFSET(synDeviceInfo, dramBaseAddress, 8);
SYN_ASSERT_OFFSET(synDeviceInfo, sramSize, 16);
SYN_ASSERT_OFFSET(synDeviceInfo, dramSize, 24);
SYN_ASSERT_OFFSET(synDeviceInfo, tpcEnabledMask, 32);
SYN_ASSERT_OFFSET(synDeviceInfo, dramEnabled, 40);
SYN_ASSERT_OFFSET(synDeviceInfo, deviceId, 44);
SYN_ASSERT_OFFSET(synDeviceInfo, fd, 48);
SYN_ASSERT_OFFSET(synDeviceInfo, deviceType, 52);
SYN_ASSERT_SIZE(synDeviceInfoV2, 72);
SYN_ASSERT_OFFSET(synDeviceInfoV2, deviceType, 52);
SYN_ASSERT_OFFSET(synDeviceInfoV2, deviceIndex, 56);
SYN_ASSERT_OFFSET(synDeviceInfoV2, globalHbmBaseAddress, 64);

SYN_ASSERT_SIZE(synQuantDynamicRange, 16);
SYN_ASSERT_SIZE(synPerChannelDynamicRange, 16);
SYN_ASSERT_OFFSET(synPerChannelDynamicRange, numChannels, 8);
SYN_ASSERT_SIZE(synQuantZPScale, 16);
SYN_ASSERT_SIZE(synQuantMetadata, 24);
SYN_ASSERT_OFFSET(synQuantMetadata, zpScales, 8);
SYN_ASSERT_OFFSET(synQuantMetadata, numZPScales, 16);
SYN_ASSERT_SIZE(synFpQuantParam, 16);
SYN_ASSERT_OFFSET(synFpQuantParam, expBias, 8);
SYN_ASSERT_SIZE(synFpQuantMetadata, 24);
SYN_ASSERT_OFFSET(synFpQuantMetadata, fpQuantParams, 8);
SYN_ASSERT_OFFSET(synFpQuantMetadata, numFpQuantParams, 16);
SYN_ASSERT_SIZE(synQuantFlags, 3);
SYN_ASSERT_SIZE(synDynamicStridedDmaH2dTensor, 64);
SYN_ASSERT_OFFSET(synDynamicStridedDmaH2dTensor, strides, 16);
SYN_ASSERT_SIZE(synDynamicSliceDmaH2dTensor, 88);
SYN_ASSERT_OFFSET(synDynamicSliceDmaH2dTensor, starts, 48);

SYN_ASSERT_SIZE(synTraceEventArg, 24);
SYN_ASSERT_OFFSET(synTraceEventArg, value, 16);
SYN_ASSERT_SIZE(synTraceEventExtraArgs, 16);
SYN_ASSERT_OFFSET(synTraceEventExtraArgs, args, 8);
SYN_ASSERT_SIZE(synTraceEventArguments, 128);
SYN_ASSERT_OFFSET(synTraceEventArguments, event.extraArgs, 48);
SYN_ASSERT_OFFSET(synTraceEventArguments, counter.matches, 24);
SYN_ASSERT_SIZE(synTraceEvent, 208);
SYN_ASSERT_OFFSET(synTraceEvent, type, 16);
SYN_ASSERT_OFFSET(synTraceEvent, timestamp, 32);
SYN_ASSERT_OFFSET(synTraceEvent, duration, 48);
SYN_ASSERT_OFFSET(synTraceEvent, engineType, 64);
SYN_ASSERT_OFFSET(synTraceEvent, engineIndex, 68);
SYN_ASSERT_OFFSET(synTraceEvent, contextId, 72);
SYN_ASSERT_OFFSET(synTraceEvent, arguments, 80);

SYN_ASSERT_SIZE(synQuantizationParams, 32);
SYN_ASSERT_OFFSET(synQuantizationParams, m_qDataType, 20);
SYN_ASSERT_SIZE(synPerChannelQuantizationParams, 32);
SYN_ASSERT_OFFSET(synPerChannelQuantizationParams, m_qDataType, 28);
SYN_ASSERT_SIZE(synTensorDescriptor, 528);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_sizes, 12);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_quantizationParams, 32);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_ptr, 224);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_isQuantized, 233);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_name, 240);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_strides, 248);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_isOutput, 268);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_perChannelQuantizationParams, 272);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_isInput, 464);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_minSizes, 468);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_tensorType, 488);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_dynamicRange, 496);
SYN_ASSERT_OFFSET(synTensorDescriptor, m_isSparsityWeights, 520);
