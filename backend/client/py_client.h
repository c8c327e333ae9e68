// Binds CompileClient, KeyBuilder and ensure_server for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace hpu::client {

void BindKeyBuilder(pybind11::module_& module);
void BindClient(pybind11::module_& module);

}  // namespace hpu::client
