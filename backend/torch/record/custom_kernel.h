// The operator hpu::custom_kernel, which calls a kernel by its GUID: one of the user's own
// (backend/custom_op) or a node of the device.
//
//   custom_kernel(Tensor[] inputs, str guid, int version, str params, int[] results) -> Tensor[]
//
// `version` is that of the user's kernel, or 0; `params` are the bytes of the parameter struct as
// hexadecimal digits. `results` has, for each result, the number of its c10::ScalarType, its rank
// and its sizes; results are row-major. Only recipes hold the call: neither the CPU nor the host
// can run it.
#pragma once

namespace hpu::torch_backend {

inline constexpr char kCustomKernel[] = "hpu::custom_kernel";

// Defines the operator, except for its kernel on hpu, and lets backend/custom_op find versions.
void DefineCustomKernel();

}  // namespace hpu::torch_backend
