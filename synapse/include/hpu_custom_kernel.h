// The interface between the emulated device and a library of custom kernels, which
// GC_KERNEL_PATH names. On a card such kernels are TPC code; here they are compiled C or C++.
// docs/custom_kernels.md is the guide. Plain C.
//
// A library exports hpu_kernel_library(), which returns a table with static lifetime. The process
// that launches a recipe opens the library when the recipe is first launched, and never closes it.
#pragma once

#include <stdint.h>

#include "synapse_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// A library of another number is refused. It changes whenever a struct below changes.
#define HPU_KERNEL_ABI_VERSION 1u

// A tensor of 1 to 5 dimensions; a tensor of no dimensions has one of size 1. Dimension 0 is the
// fastest-changing one (PyTorch's last), as for TPC kernels.
typedef struct HpuKernelTensor {
  void* data;  // the first element; null in prepare()
  synDataType dtype;
  uint32_t rank;
  const uint64_t* sizes;  // each at least 1
  // In elements. Those of an output visit each element once. Those of an input may be 0 or
  // negative: the tensor may be a view of another one, and inputs may share memory.
  const int64_t* strides;
} HpuKernelTensor;

typedef struct HpuKernelCall {
  const HpuKernelTensor* inputs;
  const HpuKernelTensor* outputs;  // never share memory with an input or with each other
  uint32_t input_count;
  uint32_t output_count;
  const void* params;  // the struct that the operator's parameter function filled; may be null
  uint64_t params_size;
  uint64_t first_task;  // run() does the tasks [first_task, end_task)
  uint64_t end_task;
  // A function that fails writes a text for the user here, which ends with a NUL byte.
  char* error;
  uint64_t error_size;  // bytes, at least 256
} HpuKernelCall;

// Both functions return 0, or a code of the kernel's own that the error message shows. They own
// nothing of what they get, keep no pointer, throw nothing, call no function of the Synapse API,
// and do not fork. The result must depend on inputs and parameters alone, because the compiler
// joins equal calls and leaves out those whose results nobody reads.
typedef struct HpuKernel {
  const char* guid;
  // Raise it when operands or parameters get another meaning: a recipe runs only with the version
  // that it was compiled for. At least 1.
  uint32_t version;
  // Called once per node of a recipe, before its first launch. Refuses types, sizes and parameters
  // that run() cannot take, and sets *tasks (1 before the call) to the number of independent parts.
  // May be null: everything is taken, as one task.
  int32_t (*prepare)(const HpuKernelCall* call, uint64_t* tasks);
  // Called on several threads at a time, with other ranges of tasks or for other launches. The
  // results must not depend on how the tasks are split.
  int32_t (*run)(const HpuKernelCall* call);
} HpuKernel;

typedef struct HpuKernelLibrary {
  uint32_t abi_version;  // HPU_KERNEL_ABI_VERSION
  uint32_t kernel_count;
  const char* name;  // for messages
  const HpuKernel* kernels;
} HpuKernelLibrary;

// The name of the exported function, and its type.
#define HPU_KERNEL_LIBRARY_SYMBOL "hpu_kernel_library"
typedef const HpuKernelLibrary* (*HpuKernelLibraryFunction)(void);

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const HpuKernelLibrary*
hpu_kernel_library(void);

#ifdef __cplusplus
}  // extern "C"
#endif
