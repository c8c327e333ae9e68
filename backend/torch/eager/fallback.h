// Operators without a kernel on hpu run on the CPU: arguments are seen as CPU tensors
// (host_access), the CPU kernel runs, and results become hpu tensors. Each such call is logged and
// counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace hpu::torch_backend {

// A boxed kernel for any operator.
void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Takes over, on hpu, every aten operator that has a CPU kernel and no hpu kernel, so that an
// operator falls back as a whole and not in the parts that PyTorch would split it into; and every
// operator of another library that has neither a kernel on hpu nor parts. Call it once, after all
// other registrations.
void RegisterFallback();

// Maps an operator name (no namespace, no overload) to the number of times that it ran on the CPU.
std::map<std::string, uint64_t> FallbackCounts();
void ResetFallbackCounts();

// Reads PT_HPU_PLACE_ON_CPU: if empty, any operator may fall back; "none" forbids all; otherwise it
// is a comma-separated list of the operators that may.
void ReloadFallbackPolicy();

}  // namespace hpu::torch_backend
