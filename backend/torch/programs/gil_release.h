// Releases the GIL while it lives, if this thread has it: autograd's threads do not.
#pragma once

#include <optional>

#include "backend/torch/pytorch/unstable_torch.h"

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
