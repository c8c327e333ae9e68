// Releases the GIL while it lives, if this thread has it: autograd's threads do not.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <optional>

namespace hpu::torch_backend {

class GilRelease {
 public:
  GilRelease() {
    if (PyGILState_Check() != 0) release_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> release_;
};

}  // namespace hpu::torch_backend
