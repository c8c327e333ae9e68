// Operators without a kernel on hpu run on the CPU: arguments are seen as CPU tensors
// (host_access), the CPU kernel runs, results become hpu tensors. Each is logged and counted.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <map>
#include <string>

namespace hpu::torch_backend {

// Boxed kernel for any operator.
void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Takes over, on hpu, every aten operator that has a CPU kernel and no hpu kernel, so that an
// operator falls back as a whole and not as the parts PyTorch would split it into. Call once, after
// all other registrations.
void RegisterFallback();

// Operator name (no namespace, no overload) -> times it ran on the CPU.
std::map<std::string, uint64_t> FallbackCounts();
void ResetFallbackCounts();

// Reads PT_HPU_PLACE_ON_CPU: empty = any operator may fall back, "none" = none may, else a comma
// list of the operator names that may.
void ReloadFallbackPolicy();

}  // namespace hpu::torch_backend
