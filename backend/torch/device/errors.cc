#include "backend/torch/device/errors.h"

#include <ATen/ATen.h>

namespace hpu::torch_backend {
namespace {

PyObject* device_error = nullptr;
PyObject* aliased_inputs = nullptr;
PyObject* inputs_with_tangents = nullptr;

PyObject* AddType(PyObject* module, const char* name, const char* full_name, const char* doc) {
  PyObject* type = PyErr_NewExceptionWithDoc(full_name, doc, PyExc_RuntimeError, nullptr);
  if (type == nullptr || PyModule_AddObjectRef(module, name, type) < 0) throw python_error();
  return type;
}

}  // namespace

PyObject* DeviceError::python_type() { return device_error; }
PyObject* AliasedInputs::python_type() { return aliased_inputs; }
PyObject* InputsWithTangents::python_type() { return inputs_with_tangents; }

void AddExceptionTypes(PyObject* module) {
  device_error =
      AddType(module, "DeviceError", "habana_frameworks.torch._native._torch.DeviceError",
              "A device call failed; the text names the call, the status and its meaning.");
  aliased_inputs =
      AddType(module, "AliasedInputs", "habana_frameworks.torch._native._torch.AliasedInputs",
              "A mutated input of a program shares memory with another input.");
  inputs_with_tangents = AddType(
      module, "InputsWithTangents", "habana_frameworks.torch._native._torch.InputsWithTangents",
      "An input of a program has a tangent of forward-mode differentiation.");
}

void Throw(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                std::string(status.message()));
  }
  throw DeviceError(ToText(status));
}

}  // namespace hpu::torch_backend
