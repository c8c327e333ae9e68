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
    // Like kComposed, but lazy mode and captures record the operators that it calls. In eager mode
    // the CPU's kernel, which is one pass over the memory, may run in its place.
    kComposedInRecordings,
    // Like kComposed, but the CPU's kernel never runs in its place: it would draw other numbers, or
    // PyTorch composes the operator on the CPU, too.
    kAlwaysComposed,
  };
  Kind kind = Kind::kHost;
  // Null stands for true. kHost: whether a call applies anything, which is work for a program; a
  // call that does not is run by the kernel, which only moves bytes then. kComposed: whether a call
  // is one that no program can do.
  Predicate applies = nullptr;
};

template <typename Kernel>
OwnKernel Composed(const char* op, Kernel* kernel, Predicate applies = nullptr) {
  return {op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel),
          OwnKernel::Kind::kComposed, applies};
}
template <typename Kernel>
OwnKernel AlwaysComposed(const char* op, Kernel* kernel, Predicate applies = nullptr) {
  return {op, c10::KernelFunction::makeFromUnboxedRuntimeFunction(kernel),
          OwnKernel::Kind::kAlwaysComposed, applies};
}

std::vector<OwnKernel> CopyKernels();
std::vector<OwnKernel> RandomKernels();
std::vector<OwnKernel> DataDependentKernels();
std::vector<OwnKernel> DistributionKernels();
std::vector<OwnKernel> ComposedKernels();
std::vector<OwnKernel> FusedOptimizerKernels();

// Copies a result into the tensor that the caller gave, which gets its sizes. Warns, as PyTorch
// does, if it had other sizes and elements.
at::Tensor& Into(at::Tensor& out, const at::Tensor& result);

}  // namespace hpu::torch_backend
