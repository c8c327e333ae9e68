// Calls that no recipe can hold run on the CPU: arguments are seen as CPU tensors (host_access),
// the CPU kernel runs, and results become hpu tensors. Each such call is logged and counted.
#pragma once

#include <string>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Returns whether some tensors of the operator (indices, lengths) may be on the CPU beside hpu
// tensors.
bool TakesMixedDevices(const c10::FunctionSchema& schema);

// Throws for arguments of which some are on hpu and others elsewhere.
void CheckDevices(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments);

// Counts and logs a fallback. Throws if PT_HPU_PLACE_ON_CPU does not let the operator fall back;
// `reason` then says why it has to ("" if it is not known).
void AdmitFallback(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> arguments,
                   const std::string& reason);

// A boxed kernel for any operator: all of the above, and the CPU's kernel.
void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Reads PT_HPU_PLACE_ON_CPU: if empty, any operator may fall back; "none" forbids all; otherwise it
// is a comma-separated list of the operators that may.
void ReloadFallbackPolicy();
// Returns whether it is empty: only then may the host compute in the place of a recipe.
bool HostMayCompute();

}  // namespace hpu::torch_backend
