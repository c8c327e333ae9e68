// Glue between C++ and Python: statuses become exceptions, and waits check for signals.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <functional>

#include "base/hash.h"
#include "base/status.h"

namespace hpu::client {

// Adds CompileError(RuntimeError), whose `code` is the canonical name ("UNIMPLEMENTED"), and
// ServerUnavailable(CompileError) for statuses of that type (connection.h).
void BindErrors(pybind11::module_& module);

// Raises the exception for `status`, which must not be OK. The GIL must be held.
[[noreturn]] void RaiseStatus(const absl::Status& status);

// Runs a call without the GIL and keeps Python's errors during the call: a pending signal (Ctrl-C)
// or a callback that raised cancels the call, and the Python exception replaces its status.
class PythonCall {
 public:
  // Must be called while waiting. Once it has failed, it keeps failing.
  absl::Status CheckSignals();
  // Runs Python code inside the call.
  absl::Status Callback(const std::function<void()>& code);

  // Runs `call` without the GIL and raises its error.
  template <typename T>
  T Run(const std::function<absl::StatusOr<T>()>& call) {
    absl::StatusOr<T> result = absl::UnknownError("not run");
    {
      const pybind11::gil_scoped_release release;
      result = call();
    }
    RethrowPython();
    if (!result.ok()) RaiseStatus(result.status());
    return *std::move(result);
  }

 private:
  void RethrowPython();

  std::exception_ptr raised_;
};

// Converts exactly 32 bytes; otherwise raises ValueError.
Digest ToDigest(const pybind11::bytes& bytes);

}  // namespace hpu::client
