// Runs one operator of hpu tensors by its CPU kernel.
#pragma once

#include <ATen/ATen.h>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

inline bool IsHpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::HPU;
}

// Arguments and results on the stack are hpu tensors; host_access defines how the CPU sees them.
// Operators that write are treated as writing. A type that the CPU kernel lacks and accelerators
// have (histc of integers) is widened for the call, and its results are narrowed.
void CallOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hpu::torch_backend
