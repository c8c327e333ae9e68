// The features that the emulated device offers beyond the Synapse C API. Only the emulator's
// libSynapse.so exports these functions: resolve them by name (synapse/loader.h does). A missing
// function means that the capability is missing, and is never an error. Plain C.
#pragma once

#include "hccl.h"
#include "synapse_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Parameters of node philox_uniform_fwd_f32, which Intel's library does not have: inputs seed and
// offset (i64, one element each), output f32 in [0, 1) of any shape. Element i, row-major, is
// number i % 4 of block offset + base + i / 4 of Philox4x32-10 with the seed as key; it is the
// upper 24 bits of that number.
typedef struct synEmulatorPhiloxParams {
  uint32_t baseLow;
  uint32_t baseHigh;
} synEmulatorPhiloxParams;

// Parameters of nodes sdpa_philox_fwd and sdpa_philox_bwd, which Intel's library does not have
// either. They are sdpa_recomp_fwd and _bwd with weights that the generator above drops. Weight (b,
// h, i, j) of the softmax is number ((b * heads + h) * rows + i) * keys + j of the draw. Where that
// number is below `keep`, the weight is divided by `keep`; otherwise it is 0. The inputs are those
// of sdpa_recomp (forward: query, key, value, mask; backward: gradient, query, key, value, mask,
// maximum, inverse sum), followed in the forward node by seed and offset, and in the backward node
// by seed, the forward's result and offset.
typedef struct synEmulatorSdpaParams {
  float scale;
  uint32_t isCausal;
  float keep;  // above 0
  uint32_t baseLow;
  uint32_t baseHigh;
} synEmulatorSdpaParams;

// Parameters of node matmul_grouped_fwd, which Intel's library does not have either. Inputs are a
// [K, M], the ends of groups (i32 [groups]) and their matrices: one [N, K, groups], or [N, K] for
// each group. The output is [N, M]: row m of a times the matrix of its group. If innerGroups is not
// 0, groups are ranges of K, the matrix is one [N, K], and the output is [N, M, groups]. A group
// begins where the one before it ends; an end that is less than one before it counts as that one,
// and one beyond the rows as their number. Rows that belong to no group give 0.
typedef struct synEmulatorGroupedMatmulParams {
  uint32_t innerGroups;
} synEmulatorGroupedMatmulParams;

typedef enum synEmulatorCapability SYN_ENUM_TYPE {
  // Device addresses are pointers that this process may read and write between
  // synEmulatorHostAccessBegin and End, while no queued work uses the memory. After a write call
  // synEmulatorHostWrite.
  SYN_EMULATOR_HOST_ADDRESSABLE = 1 << 0,
  // Recipes are native code for an instruction-set level of the host (synEmulatorGetIsaLevel).
  SYN_EMULATOR_NATIVE_CODE = 1 << 1,
  // The device behaves as a card does (EMULATOR_STRICT=1): SYN_EMULATOR_HOST_ADDRESSABLE is not
  // set, and the functions below that concern the device and not the compiler return
  // synUnsupported. A loader treats those as absent.
  SYN_EMULATOR_STRICT = 1 << 2,
} synEmulatorCapability;

// `capabilities` receives bits of synEmulatorCapability.
synStatus synEmulatorGetCapabilities(uint64_t* capabilities);

// Brings [address, address + size) into memory (the device keeps some weights only in another
// layout) and keeps it there until this or another thread calls End, once for every Begin. Reading
// or writing device memory at any other time is undefined.
synStatus synEmulatorHostAccessBegin(uint64_t address, uint64_t size);
// Returns synInvalidArgument if there was no Begin.
synStatus synEmulatorHostAccessEnd(void);

// Tells the device that host code wrote [address, address + size) of its memory directly: copies
// that the device keeps in another layout are dropped. It takes effect for work queued after the
// call. Call it before the End of the access.
synStatus synEmulatorHostWrite(uint64_t address, uint64_t size);

// Writes the level of this host: "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" or
// "x86-64-v4-amx". A recipe of a higher level is refused at launch. The configuration key
// EMULATOR_ISA_LEVEL is the level to compile for.
synStatus synEmulatorGetIsaLevel(char* buffer, size_t length);
// Writes the level that a recipe was compiled for.
synStatus synEmulatorRecipeGetIsaLevel(synRecipeHandle recipe, char* buffer, size_t length);

// Sets the number of threads that compute, including the one that runs the launch. 0 restores the
// default: the CPUs of the process's affinity mask, at most HPU_EMULATOR_THREADS. Results do not
// depend on it. Waits for running launches.
synStatus synEmulatorSetComputeThreads(uint32_t count);
synStatus synEmulatorGetComputeThreads(uint32_t* count);

// Writes the counters since initialisation as a JSON object (launches, kernels, copies, packs,
// bytes, compiled graphs and kernels). *size receives the bytes with the terminating NUL; a null
// buffer asks for the size only; a buffer that is too small gives synInvalidArgument.
synStatus synEmulatorGetCounters(char* buffer, size_t capacity, size_t* size);

// The best that the compute threads reach on this host, per second: operations with factors in f32
// and in bf16 (a multiply-add is two), and bytes read and written of large buffers. The sizes of
// the caches are in bytes, where 0 means not known; the first two belong to one core. These are
// figures of the host's CPUs, not of any card.
typedef struct synEmulatorPeak {
  double f32FlopsPerSecond;
  double bf16FlopsPerSecond;
  double bytesPerSecond;
  uint64_t l1Bytes;
  uint64_t l2Bytes;
  uint64_t l3Bytes;
} synEmulatorPeak;

// The call measures this in about a second; other work lowers the rate of bytes.
synStatus synEmulatorMeasurePeak(synEmulatorPeak* peak);

// While `on` is not 0, traced launches run the tasks of their kernels one after the other on one
// thread, and the trace contains the time of each: the argument "task_ns" of a kernel has numbers
// joined by commas, one per piece of `grain` tasks (or per several such pieces where there are more
// than 1,024).
synStatus synEmulatorTraceTasks(uint32_t on);

// Marks a persistent tensor that mostly holds the same values in successive launches. The values
// that an inference recipe computes from such tensors and constants alone are computed by the first
// launch, and again after every change of their memory that the device knows of (as for packed
// copies). Default: false.
synStatus synEmulatorTensorSetWeight(synTensor tensor, bool value);

// Checks whether the device accepts the graph, without generating code. Returns synUnsupported if
// it has no such node, element type or shape, and synInvalidArgument if shapes or parameters
// contradict each other. synGetLastErrorMessage names the node and the reason. Nodes may still be
// added to the graph afterwards.
synStatus synEmulatorGraphCheck(synGraphHandle graph);

// Looks for a kernel of the caller's own (hpu_custom_kernel.h) in the libraries that GC_KERNEL_PATH
// names, which it opens. *version receives the version of the first one with this guid, or 0.
synStatus synEmulatorFindKernel(const char* guid, uint32_t* version);
// Writes a line "guid version" for each kernel of these libraries. The arguments are those of
// synEmulatorGetCounters.
synStatus synEmulatorListKernels(char* buffer, size_t capacity, size_t* size);

// Declares that nodes with this guid, which are created after the call, are a kernel of the
// caller's own of this version, and no node of the device. Compiling opens no library: the recipe
// holds guid and version, and the process that launches it looks for them. Their outputs need
// sizes. Returns synInvalidArgument for version 0 or a guid of no letters.
synStatus synEmulatorGraphDeclareKernel(synGraphHandle graph, const char* guid, uint32_t version);

// Does the same as synRecipeDeSerialize, from memory.
synStatus synEmulatorRecipeDeserialize(synRecipeHandle* recipe, const void* bytes, size_t size);

// Does the same as hcclCommInitRank, and waits for the other ranks at most this long.
hcclResult_t synEmulatorCommInitRank(hcclComm_t* comm, int num_ranks, hcclUniqueId id, int rank,
                                     uint64_t milliseconds);

// Does the same as hcclCommAbort. The error that all ranks get contains `reason`.
hcclResult_t synEmulatorCommAbort(hcclComm_t comm, const char* reason);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif
