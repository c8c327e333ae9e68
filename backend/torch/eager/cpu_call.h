// Runs one operator of hpu tensors by its CPU kernel.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

#include "backend/torch/eager/undeclared_writes.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

inline bool IsHpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::HPU;
}

// Holds what the host needs to know for all calls of an operator. It never changes.
class CpuCallPlan {
 public:
  struct Argument {
    bool written = false;  // in all calls
    UndeclaredWrite undeclared;
    bool optional_tensors = false;  // it is a list of tensors, and some may be None
    bool generator = false;
  };

  explicit CpuCallPlan(const c10::OperatorHandle& op);

  size_t argument_count() const { return arguments_.size(); }
  size_t return_count() const { return return_count_; }
  const Argument& argument(size_t i) const { return arguments_[i]; }
  // The kernel draws random numbers and takes no generator.
  bool needs_default_generator() const { return needs_default_generator_; }
  // Returns whether a call with these arguments draws random numbers, for an operator that can.
  bool Draws(c10::ArrayRef<c10::IValue> arguments) const;

 private:
  std::vector<Argument> arguments_;
  size_t return_count_;
  bool needs_default_generator_;
  std::vector<size_t> dropout_switches_;
};

// Arguments and results on the stack are hpu tensors; host_access defines how the CPU sees them.
// Operators that write are treated as writing. A type that the CPU kernel lacks and accelerators
// have (histc of integers) is widened for the call, and its results are narrowed.
void CallOnCpu(const CpuCallPlan& plan, const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace hpu::torch_backend
