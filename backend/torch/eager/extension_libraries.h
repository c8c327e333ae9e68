// Finds shared objects of this process that may have registered code with PyTorch's dispatcher.
#pragma once

#include <string>
#include <vector>

namespace hpu::torch_backend {

// Returns the files of the loaded objects that are linked against libtorch or libc10, without
// PyTorch's own and this package's; the program itself is included. They are ordered by name. The
// call is cheap while no further object is loaded.
std::vector<std::string> ExtensionLibraries();

}  // namespace hpu::torch_backend
