#include "backend/client/py_support.h"

#include <algorithm>
#include <string>

#include "compile_client/connection.h"

namespace hpu::client {
namespace {

namespace py = pybind11;

// Borrowed from the module, which lives as long as the interpreter.
PyObject* compile_error = nullptr;
PyObject* server_unavailable = nullptr;

PyObject* NewException(py::module_& module, const char* name, const char* text, PyObject* base) {
  const std::string full_name = std::string(PyModule_GetName(module.ptr())) + "." + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full_name.c_str(), text, base, nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::handle(type);
  return type;
}

absl::Status Raised() {
  return Error(absl::StatusCode::kCancelled, "a Python exception is under way");
}

}  // namespace

void BindErrors(py::module_& module) {
  compile_error = NewException(
      module, "CompileError",
      "The compiler or its server refused; `code` is the canonical name of the reason.",
      PyExc_RuntimeError);
  py::handle(compile_error).attr("code") = "UNKNOWN";
  server_unavailable = NewException(
      module, "ServerUnavailable",
      "No compile server can be reached or started, or it did not answer in time.", compile_error);
}

void RaiseStatus(const absl::Status& status) {
  const py::handle type = IsServerUnavailable(status) ? server_unavailable : compile_error;
  const auto message = status.message();
  const py::object error = type(py::str(message.data(), message.size()));
  error.attr("code") = absl::StatusCodeToString(status.code());
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

absl::Status PythonCall::CheckSignals() {
  return Callback([] {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  });
}

absl::Status PythonCall::Callback(const std::function<void()>& code) {
  if (raised_ != nullptr) return Raised();
  const py::gil_scoped_acquire acquire;
  try {
    code();
  } catch (const py::error_already_set&) {
    raised_ = std::current_exception();
    return Raised();
  }
  return absl::OkStatus();
}

void PythonCall::RethrowPython() {
  if (raised_ != nullptr) std::rethrow_exception(raised_);
}

Digest ToDigest(const py::bytes& bytes) {
  const std::string_view view(bytes);
  Digest digest;
  if (view.size() != digest.size()) {
    throw py::value_error("a key has 32 bytes, not " + std::to_string(view.size()));
  }
  std::ranges::copy(view, digest.begin());
  return digest;
}

}  // namespace hpu::client
