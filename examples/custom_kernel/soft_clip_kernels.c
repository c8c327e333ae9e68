// Two kernels for the emulated device: y = limit * x / (limit + |x|), and its gradient. On a card
// they would be TPC kernels with the same GUIDs.
//
//   cc -O2 -shared -fPIC -I "$INCLUDE" soft_clip_kernels.c -o libsoft_clip_kernels.so
#include <hpu_custom_kernel.h>
#include <math.h>
#include <stdio.h>

#include "soft_clip.h"

// The first element of a line along dimension 0, where `line` counts the lines of the tensor.
static float* LineOf(const HpuKernelTensor* tensor, uint64_t line) {
  int64_t offset = 0;
  for (uint32_t d = 1; d < tensor->rank; ++d) {
    offset += (int64_t)(line % tensor->sizes[d]) * tensor->strides[d];
    line /= tensor->sizes[d];
  }
  return (float*)tensor->data + offset;
}

static int SameForm(const HpuKernelTensor* a, const HpuKernelTensor* b) {
  int same = a->dtype == syn_type_float && b->dtype == syn_type_float && a->rank == b->rank;
  for (uint32_t d = 0; same && d < a->rank; ++d) same = a->sizes[d] == b->sizes[d];
  return same;
}

static int32_t Refuse(const HpuKernelCall* call, const char* reason) {
  snprintf(call->error, call->error_size, "%s", reason);
  return 1;
}

// Each line along dimension 0 is a task.
static int32_t Prepare(const HpuKernelCall* call, uint64_t* tasks) {
  for (uint32_t i = 0; i < call->input_count; ++i) {
    if (!SameForm(&call->inputs[i], &call->outputs[0])) {
      return Refuse(call, "inputs and output must be f32 and of one size");
    }
  }
  if (call->params_size != sizeof(SoftClipParams))
    return Refuse(call, "the parameters are missing");
  if (!(((const SoftClipParams*)call->params)->limit > 0)) {
    return Refuse(call, "the limit must be above 0");
  }
  for (uint32_t d = 1; d < call->outputs[0].rank; ++d) *tasks *= call->outputs[0].sizes[d];
  return 0;
}

static int32_t PrepareForward(const HpuKernelCall* call, uint64_t* tasks) {
  if (call->input_count != 1 || call->output_count != 1) return Refuse(call, "takes one tensor");
  return Prepare(call, tasks);
}

static int32_t PrepareBackward(const HpuKernelCall* call, uint64_t* tasks) {
  if (call->input_count != 2 || call->output_count != 1) return Refuse(call, "takes two tensors");
  return Prepare(call, tasks);
}

static int32_t RunForward(const HpuKernelCall* call) {
  const HpuKernelTensor* x = &call->inputs[0];
  const HpuKernelTensor* y = &call->outputs[0];
  const float limit = ((const SoftClipParams*)call->params)->limit;
  for (uint64_t task = call->first_task; task < call->end_task; ++task) {
    const float* from = LineOf(x, task);
    float* to = LineOf(y, task);
    for (int64_t i = 0; i < (int64_t)x->sizes[0]; ++i) {
      const float value = from[i * x->strides[0]];
      to[i * y->strides[0]] = limit * value / (limit + fabsf(value));
    }
  }
  return 0;
}

// The inputs are the gradient of y, and x.
static int32_t RunBackward(const HpuKernelCall* call) {
  const HpuKernelTensor* dy = &call->inputs[0];
  const HpuKernelTensor* x = &call->inputs[1];
  const HpuKernelTensor* dx = &call->outputs[0];
  const float limit = ((const SoftClipParams*)call->params)->limit;
  for (uint64_t task = call->first_task; task < call->end_task; ++task) {
    const float* gradient = LineOf(dy, task);
    const float* from = LineOf(x, task);
    float* to = LineOf(dx, task);
    for (int64_t i = 0; i < (int64_t)x->sizes[0]; ++i) {
      const float scale = limit / (limit + fabsf(from[i * x->strides[0]]));
      to[i * dx->strides[0]] = gradient[i * dy->strides[0]] * scale * scale;
    }
  }
  return 0;
}

const HpuKernelLibrary* hpu_kernel_library(void) {
  static const HpuKernel kernels[] = {
      {.guid = "soft_clip_fwd_f32", .version = 1, .prepare = PrepareForward, .run = RunForward},
      {.guid = "soft_clip_bwd_f32", .version = 1, .prepare = PrepareBackward, .run = RunBackward},
  };
  static const HpuKernelLibrary library = {
      .abi_version = HPU_KERNEL_ABI_VERSION,
      .kernel_count = sizeof(kernels) / sizeof(kernels[0]),
      .name = "soft clip",
      .kernels = kernels,
  };
  return &library;
}
