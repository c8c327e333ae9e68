// Some operators have requirements of plain numbers that their shape functions do not check.
// Recipes would compute something for wrong numbers, where the CPU's kernels raise an error.
#pragma once

#include <ATen/ATen.h>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Throws PyTorch's error if a number among the arguments of a call is wrong.
using NumberCheck = void (*)(c10::ArrayRef<c10::IValue> arguments);

// Returns null if the operator needs none.
NumberCheck NumberCheckOf(const c10::FunctionSchema& schema);

}  // namespace hpu::torch_backend
