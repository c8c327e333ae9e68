// The Python type _torch.Program: a compiled graph that is called like a function.
#pragma once

#include <Python.h>

#include "backend/torch/programs/compiled_program.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Creates the type and adds it to the module.
void AddProgramType(PyObject* module);

// Returns the program behind an object of that type. Throws TypeError for any other object.
c10::intrusive_ptr<CompiledProgram> ProgramOf(PyObject* object);

}  // namespace hpu::torch_backend
