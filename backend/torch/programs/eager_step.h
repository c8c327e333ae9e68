// An eager step of a program, which calls one operator through PyTorch's dispatcher.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"
#include "program/program.h"

namespace hpu::torch_backend {

class PreparedEagerStep {
 public:
  // Finds the operator and converts the arguments that do not change between calls. `function`
  // contains `step` and must outlive this object, as must the name of its program. `in_use` is
  // TensorsInUse(function). Throws DeviceError naming operator and argument.
  PreparedEagerStep(const std::string& program, const ProgramFunction& function,
                    const EagerStep& step, const std::vector<bool>& in_use);

  // Returns the program tensors that Run reads.
  const std::vector<uint32_t>& inputs() const { return inputs_; }

  // Calls the operator below autograd. Reads `tensors` at inputs() and writes it at the step's
  // outputs that are in use. A result whose strides differ from those of the program is copied to a
  // tensor with the right ones. Results lie on hpu, except those of hpu::copy_to_host.
  void Run(std::vector<at::Tensor>& tensors) const;

 private:
  struct PreparedArgument {
    c10::TypePtr type;
    c10::IValue constant;
    const Argument* dynamic = nullptr;  // it contains a tensor, so it is converted at each call
    bool is_group = false;              // `constant` is what the program calls a process group
    bool is_written = false;            // the operator gets a copy (written_arguments.h)
  };

  PreparedArgument Prepare(const c10::Argument& declared, const Argument* given);
  at::Tensor Fit(at::Tensor tensor, uint32_t output) const;

  const std::string& program_;
  const ProgramFunction& function_;
  const EagerStep& step_;
  c10::OperatorHandle op_;
  std::vector<PreparedArgument> arguments_;
  std::vector<uint32_t> inputs_;
  std::vector<bool> output_in_use_;
};

}  // namespace hpu::torch_backend
