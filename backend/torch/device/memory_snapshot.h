// Python's view of the device allocator's blocks and history.
#pragma once

#include <pybind11/pybind11.h>

namespace hpu::torch_backend {

void BindMemorySnapshot(pybind11::module_& module);

}  // namespace hpu::torch_backend
