// memcpy, memmove and memset inside the image: the backend lowers memory intrinsics of unknown or
// large size to calls of these names, and an image may have no external symbols.
#pragma once

#include <llvm/IR/Module.h>

#include <vector>

namespace hpu::graph_compiler {

// Defines those of the three functions that the module's intrinsics can need, and returns the new
// functions.
std::vector<llvm::Function*> AddMemoryFunctions(llvm::Module& module);

}  // namespace hpu::graph_compiler
