// An eager step of a program: one operator called through PyTorch's dispatcher.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace hpu::torch_backend {

class PreparedEagerStep {
 public:
  // Finds the operator and converts what does not change between calls. `function` outlives this
  // and holds `step`, as does the name of its program. `in_use`: TensorsInUse(function). Throws
  // DeviceError naming operator and argument.
  PreparedEagerStep(const std::string& program, const ProgramFunction& function,
                    const EagerStep& step, const std::vector<bool>& in_use);

  // Program tensors that Run reads.
  const std::vector<uint32_t>& inputs() const { return inputs_; }

  // Calls the operator below autograd. Reads `tensors` at inputs(), writes it at the step's
  // outputs that are in use; one whose strides are not those of the program is copied to them.
  void Run(std::vector<at::Tensor>& tensors) const;

 private:
  struct PreparedArgument {
    c10::TypePtr type;
    c10::IValue constant;
    const Argument* dynamic = nullptr;  // holds a tensor: converted at each call
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
