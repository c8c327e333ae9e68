// The Python type _torch.Program: a compiled graph that is called like a function.
#pragma once

#include <Python.h>

namespace hpu::torch_backend {

// Creates the type and adds it to the module.
void AddProgramType(PyObject* module);

}  // namespace hpu::torch_backend
