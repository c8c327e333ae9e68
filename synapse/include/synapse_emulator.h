// What the emulated device offers beyond the Synapse C API. Exported by the emulator's
// libSynapse.so only: resolve by name (synapse/loader.h does); absence means the capability is
// absent, never an error. Plain C.
#pragma once

#include "synapse/include/synapse_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// Parameters of node philox_uniform_fwd_f32, which Intel's library has not: inputs seed and offset
// (i64, one element each), output f32 of [0, 1) in any shape. Element i, row-major, is number i % 4
// of block offset + base + i / 4 of Philox4x32-10 with the seed as key, its upper 24 bits.
typedef struct synEmulatorPhiloxParams {
  uint32_t baseLow;
  uint32_t baseHigh;
} synEmulatorPhiloxParams;

// Parameters of nodes sdpa_philox_fwd and sdpa_philox_bwd, which Intel's library has not either:
// sdpa_recomp_fwd and _bwd with weights dropped as the numbers of that generator say. Weight (b, h,
// i, j) of the softmax is number ((b * heads + h) * rows + i) * keys + j of the draw; where that is
// below `keep` the weight is divided by it, else it is 0. Inputs as there (forward: query, key,
// value, mask; backward: gradient, query, key, value, mask, maximum, inverse sum), then of the
// forward seed and offset, of the backward seed, the forward's result and offset.
typedef struct synEmulatorSdpaParams {
  float scale;
  uint32_t isCausal;
  float keep;  // above 0
  uint32_t baseLow;
  uint32_t baseHigh;
} synEmulatorSdpaParams;

typedef enum synEmulatorCapability SYN_ENUM_TYPE {
  // Device addresses are pointers that this process may read and write while no queued work uses
  // the memory, between synEmulatorHostAccessBegin and End. After a write call
  // synEmulatorHostWrite.
  SYN_EMULATOR_HOST_ADDRESSABLE = 1 << 0,
  // Recipes are native code for an instruction-set level of the host (synEmulatorGetIsaLevel).
  SYN_EMULATOR_NATIVE_CODE = 1 << 1,
} synEmulatorCapability;

// Bits of synEmulatorCapability.
synStatus synEmulatorGetCapabilities(uint64_t* capabilities);

// Brings [address, address + size) into memory (the device keeps some weights only in another
// layout) and keeps it there until the same thread or another calls End, once for every Begin.
// Reading or writing device memory outside gives and does anything.
synStatus synEmulatorHostAccessBegin(uint64_t address, uint64_t size);
// synInvalidArgument: there was no Begin.
synStatus synEmulatorHostAccessEnd(void);

// Host code wrote [address, address + size) of device memory directly: copies that the device keeps
// in another layout are dropped. Takes effect for work queued after the call. Before the End of the
// access.
synStatus synEmulatorHostWrite(uint64_t address, uint64_t size);

// Level of this host: "x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-bf16" or "x86-64-v4-amx"; a
// recipe of a higher level is refused at launch. What is compiled for is the configuration key
// EMULATOR_ISA_LEVEL.
synStatus synEmulatorGetIsaLevel(char* buffer, size_t length);
// Level that a recipe was compiled for.
synStatus synEmulatorRecipeGetIsaLevel(synRecipeHandle recipe, char* buffer, size_t length);

// Threads that compute, counting the one that runs the launch. 0 restores the default: the CPUs of
// the process's affinity mask, at most HPU_EMULATOR_THREADS. Results do not depend on it. Waits for
// running launches.
synStatus synEmulatorSetComputeThreads(uint32_t count);
synStatus synEmulatorGetComputeThreads(uint32_t* count);

// Counters since initialisation as a JSON object (launches, kernels, copies, packs, bytes, compiled
// graphs and kernels). *size: bytes with the terminating NUL; null buffer = size only; a buffer
// that is too small answers synInvalidArgument.
synStatus synEmulatorGetCounters(char* buffer, size_t capacity, size_t* size);

// What the compute threads reach at their best on this host, per second: operations with factors in
// f32 and in bf16 (a multiply-add is two), and bytes read and written of large buffers. The caches'
// sizes in bytes, 0: not known; the first two are a core's. Figures of the host's CPUs, not of any
// card.
typedef struct synEmulatorPeak {
  double f32FlopsPerSecond;
  double bf16FlopsPerSecond;
  double bytesPerSecond;
  uint64_t l1Bytes;
  uint64_t l2Bytes;
  uint64_t l3Bytes;
} synEmulatorPeak;

// Measured by the call, in about a second; other work lowers the rate of bytes.
synStatus synEmulatorMeasurePeak(synEmulatorPeak* peak);

// While `on` is not 0, launches that are traced run their kernels' tasks one after the other on one
// thread, and the trace says what each took: argument "task_ns" of a kernel, numbers joined by
// commas, one per piece of `grain` tasks (of several such pieces each where there are more than
// 1,024).
synStatus synEmulatorTraceTasks(uint32_t on);

// A persistent tensor that mostly holds the same values from launch to launch. What a recipe of
// inference computes from such tensors and constants alone is computed by the first launch, and
// anew behind every change of their memory that the device knows of (as for packed copies).
// Default: false.
synStatus synEmulatorTensorSetWeight(synTensor tensor, bool value);

// Whether the device takes the graph, found without generating code. synUnsupported: it has no such
// node, element type or shape; synInvalidArgument: shapes or parameters that contradict each other.
// synGetLastErrorMessage names the node and the reason. The graph can go on to be built.
synStatus synEmulatorGraphCheck(synGraphHandle graph);

// As synRecipeDeSerialize, from memory.
synStatus synEmulatorRecipeDeserialize(synRecipeHandle* recipe, const void* bytes, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}  // extern "C"
#endif
