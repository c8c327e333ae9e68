// Between C++ and Python: statuses become exceptions, waits look at signals.
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

// Raises the exception for `status`, which is not OK. The GIL is held.
[[noreturn]] void RaiseStatus(const absl::Status& status);

// Runs a call without the GIL and keeps what Python has to say meanwhile: a pending signal (Ctrl-C)
// or a callback that raised cancels the call, and the Python exception wins over its status.
class PythonCall {
 public:
  // To be asked while waiting. Once it has failed it keeps failing.
  absl::Status CheckSignals();
  // Runs Python code inside the call.
  absl::Status Callback(const std::function<void()>& code);

  // `call` runs without the GIL; raises what went wrong.
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

// Exactly 32 bytes, or ValueError.
Digest ToDigest(const pybind11::bytes& bytes);

}  // namespace hpu::client
