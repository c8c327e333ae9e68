// This operator ends a program whose graph returns a tensor on the CPU. A graph computes values of
// the CPU on the device like all others, and its capture ends with a call of the operator for each
// of them that it returns:
//
//   hpu::copy_to_host(Tensor x, int[] strides) -> Tensor   the elements of x on the CPU
#pragma once

#include <string_view>

namespace hpu::torch_backend {

// Its result is an output of the program, and no step reads it.
inline constexpr std::string_view kCopyToHost = "hpu::copy_to_host";

}  // namespace hpu::torch_backend
