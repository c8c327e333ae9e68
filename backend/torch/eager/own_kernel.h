// Operators that have a kernel of their own beside that of the CPU.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

using Predicate = bool (*)(c10::ArrayRef<c10::IValue> arguments);

struct OwnKernel {
  const char* op;  // with its overload: "aten::fill_.Scalar"
  c10::KernelFunction kernel;
  enum class Kind {
    kHost,      // it applies on the host, in place of the CPU's kernel
    kComposed,  // it calls operators on hpu, and takes the place of a program
  };
  Kind kind = Kind::kHost;
  // Null stands for true. kHost: whether a call applies anything, which is work for a program; a
  // call that does not is run by the kernel, which only moves bytes then. kComposed: whether a call
  // is one that no program can do.
  Predicate applies = nullptr;
};

std::vector<OwnKernel> CopyKernels();
std::vector<OwnKernel> RandomKernels();
std::vector<OwnKernel> DataDependentKernels();

}  // namespace hpu::torch_backend
