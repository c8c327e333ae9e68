// Runs an operator on shapes alone.
#pragma once

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Replaces the operator's arguments on the stack by results of the right shapes and types on hpu,
// whose content is unspecified; what the operator would write to stays as it is. Throws if PyTorch
// cannot tell the shapes, for one because they depend on elements.
void CallOnMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hpu::torch_backend
