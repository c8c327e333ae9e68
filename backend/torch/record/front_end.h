// The Python side of this room: what captures calls and asks the compile server
// (habana_frameworks/torch/eager/ and .../lazy/).
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <utility>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// While this object lives, Dynamo does not trace frames of this thread, which holds the GIL.
class DynamoOff {
 public:
  DynamoOff();
  ~DynamoOff();
  DynamoOff(const DynamoOff&) = delete;
  DynamoOff& operator=(const DynamoOff&) = delete;

 private:
  const pybind11::object before_;  // what traces Python frames of the caller's thread
};

// While this object lives, its thread holds the GIL and runs in the state of a thread in which
// nobody has set anything: no mode, transform or autocast of the caller reaches the capture, and
// Dynamo does not trace it.
class FrontEnd {
 public:
  FrontEnd();
  ~FrontEnd();
  FrontEnd(const FrontEnd&) = delete;
  FrontEnd& operator=(const FrontEnd&) = delete;

  // These are the functions of the same names of set_front_end().
  template <typename... Arguments>
  pybind11::object compile_call(Arguments&&... arguments) const {
    return functions().attr("compile_call")(std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  pybind11::object describe_call(Arguments&&... arguments) const {
    return functions().attr("describe_call")(std::forward<Arguments>(arguments)...);
  }
  template <typename... Arguments>
  pybind11::object compile_recording(Arguments&&... arguments) const {
    return functions().attr("compile_recording")(std::forward<Arguments>(arguments)...);
  }

  // Calls `ask`. An exception of Python is thrown in a form that may cross threads without the GIL.
  template <typename Function>
  static auto Ask(const Function& ask) {
    try {
      return ask();
    } catch (pybind11::error_already_set& error) {
      error.restore();
      python_error raised;
      raised.persist();
      throw raised;
    }
  }

 private:
  static const pybind11::object& functions();

  const pybind11::gil_scoped_acquire gil_;
  const DynamoOff dynamo_off_;
  const at::ThreadLocalStateGuard state_;
};

// Returns whether this thread is in a FrontEnd. What is called there finds out shapes only.
bool InFrontEnd();

// Returns the arguments of a call as Python code would give them: by position and by name.
std::pair<pybind11::tuple, pybind11::dict> ToPythonCall(const c10::OperatorHandle& op,
                                                        c10::ArrayRef<c10::IValue> arguments);

// Runs a call of a recurrent operator ("aten::lstm") as calls of whole layers, in the state of the
// caller: its autograd and autocast hold. Returns nothing for a call that PyTorch must compose.
std::optional<std::vector<c10::IValue>> CallLayers(const c10::OperatorHandle& op,
                                                   c10::ArrayRef<c10::IValue> arguments);

// Adds set_front_end().
void BindFrontEnd(pybind11::module_& module);

// Returns whether a recording that raised an error of Python may run call by call: the error is
// neither a request to end the program (KeyboardInterrupt, SystemExit) nor one that the user asked
// for (options frozen and require_server).
bool MayGoOnAfter(const python_error& error);

}  // namespace hpu::torch_backend
