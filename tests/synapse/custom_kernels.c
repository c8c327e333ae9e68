// Custom kernels for conformance_custom_test.cc.
#include <hpu_custom_kernel.h>
#include <stdio.h>

static float* LineOf(const HpuKernelTensor* tensor, uint64_t line) {
  int64_t offset = 0;
  for (uint32_t d = 1; d < tensor->rank; ++d) {
    offset += (int64_t)(line % tensor->sizes[d]) * tensor->strides[d];
    line /= tensor->sizes[d];
  }
  return (float*)tensor->data + offset;
}

static int32_t CountLines(const HpuKernelCall* call, uint64_t* tasks) {
  for (uint32_t d = 1; d < call->outputs[0].rank; ++d) *tasks *= call->outputs[0].sizes[d];
  return 0;
}

// Outputs a * x + y and the number of the task.
static int32_t RunAxpy(const HpuKernelCall* call) {
  const HpuKernelTensor *x = &call->inputs[0], *y = &call->inputs[1];
  const HpuKernelTensor *sum = &call->outputs[0], *number = &call->outputs[1];
  const float a = *(const float*)call->params;
  for (uint64_t task = call->first_task; task < call->end_task; ++task) {
    for (int64_t i = 0; i < (int64_t)sum->sizes[0]; ++i) {
      LineOf(sum, task)[i * sum->strides[0]] =
          a * LineOf(x, task)[i * x->strides[0]] + LineOf(y, task)[i * y->strides[0]];
      LineOf(number, task)[i * number->strides[0]] = (float)task;
    }
  }
  return 0;
}

static int32_t RunFail(const HpuKernelCall* call) {
  if (call->end_task < 2) return 0;
  snprintf(call->error, call->error_size, "task %d is too much", (int)call->end_task - 1);
  return 7;
}

static int32_t RefuseAll(const HpuKernelCall* call, uint64_t* tasks) {
  *tasks = 5;
  snprintf(call->error, call->error_size, "takes no tensor of rank %u", call->inputs[0].rank);
  return 3;
}

static int32_t RunNothing(const HpuKernelCall* call) {
  (void)call;
  return 0;
}

const HpuKernelLibrary* hpu_kernel_library(void) {
  static const HpuKernel kernels[] = {
      {.guid = "test_axpy", .version = 2, .prepare = CountLines, .run = RunAxpy},
      {.guid = "test_fail", .version = 1, .prepare = CountLines, .run = RunFail},
      {.guid = "test_picky", .version = 1, .prepare = RefuseAll, .run = RunNothing},
  };
  static const HpuKernelLibrary library = {
      .abi_version = HPU_KERNEL_ABI_VERSION, .kernel_count = 3, .name = "test", .kernels = kernels};
  return &library;
}
