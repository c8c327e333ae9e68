// An InputForm says what a function of a program requires of a tensor that it is given.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

#include "program/program.h"

namespace hpu::torch_backend {

// Returns PyTorch's type; throws for a type of the program `program` that PyTorch lacks.
at::ScalarType ScalarTypeOf(DType dtype, const std::string& program);

// Returns whether the bytes of the tensor's memory are its values.
bool IsPlain(const at::Tensor& tensor);

struct InputForm {
  InputForm(const ProgramInput& input, const std::string& program);

  bool Fits(const at::Tensor& tensor) const;
  // Returns whether tensors of this form fit.
  bool IsOf(at::ScalarType type, at::IntArrayRef size, at::IntArrayRef stride, bool cpu) const;
  // Throws a ValueError that begins with `what` and names only the properties that differ.
  [[noreturn]] void RaiseMisfit(const at::Tensor& tensor, const std::string& what) const;

  bool is_tensor = false;
  // State of the generator: a 0-d tensor of the function's own, or a saved one.
  bool is_state = false;
  bool on_cpu = false;
  bool mutated = false;
  at::ScalarType dtype = at::kFloat;
  at::DimVector sizes;
  at::DimVector strides;
  int64_t numel = 0;
  uint64_t bytes = 0;  // from the first element to the end of the last
};

}  // namespace hpu::torch_backend
