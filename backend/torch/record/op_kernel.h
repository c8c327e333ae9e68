// The kernel on hpu of every ATen operator that computes. A call takes one of three ways:
//
// - a recipe: the program of a graph of this one call, found by the call's signature;
// - direct: the CPU's kernel on the device's memory, where the device lets the host use its memory
//   in place, until the calls of a signature are worth a program (call_table.h, docs/eager.md);
// - the fallback: the CPU's kernel for a call that no recipe can hold (eager/fallback.h).
//
// With PT_HPU_PLACE_ON_CPU=none only the first one is left.
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
