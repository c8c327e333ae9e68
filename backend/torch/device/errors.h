// Turns an absl::Status into an exception that PyTorch hands to Python. Statuses are thrown only in
// this file.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "backend/torch/pytorch/unstable_torch.h"
#include "base/status.h"

namespace hpu::torch_backend {

// Reaches Python as _torch.DeviceError (a RuntimeError).
struct DeviceError : torch::PyTorchError {
  using torch::PyTorchError::PyTorchError;
  PyObject* python_type() override;
};

// Reaches Python as _torch.AliasedInputs (a RuntimeError).
struct AliasedInputs : torch::PyTorchError {
  using torch::PyTorchError::PyTorchError;
  PyObject* python_type() override;
};

// Reaches Python as _torch.InputsWithTangents (a RuntimeError).
struct InputsWithTangents : torch::PyTorchError {
  using torch::PyTorchError::PyTorchError;
  PyObject* python_type() override;
};

// Creates the Python classes and adds them to the module.
void AddExceptionTypes(PyObject* module);

// Throws for any status but OK: c10::OutOfMemoryError (torch.OutOfMemoryError) for
// RESOURCE_EXHAUSTED, and DeviceError for the rest.
[[noreturn]] void Throw(const absl::Status& status);

inline void Check(const absl::Status& status) {
  if (!status.ok()) [[unlikely]] {
    Throw(status);
  }
}

template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) [[unlikely]] {
    Throw(value.status());
  }
  return *std::move(value);
}

// Runs `body`, which returns a new PyObject* or null; a C++ exception becomes the Python one.
template <typename Body>
PyObject* Guarded(const Body& body) {
  try {
    return body();
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
    return nullptr;
  }
}

}  // namespace hpu::torch_backend
