// This file gives operators the kernel of op_kernel.h.
#pragma once

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Takes over, on hpu, every aten operator that has a CPU kernel and no hpu kernel, so that an
// operator is taken as a whole and not in the parts that PyTorch would split it into; and every
// operator of another library that has neither a kernel on hpu nor parts. Call it once, after all
// other registrations.
void RegisterOpKernels();

// Adds set_recipe_ops(), register_op_kernel() and forget_call_programs().
void BindOpKernels(pybind11::module_& module);

}  // namespace hpu::torch_backend
