// Shared objects of this process that may have registered code with PyTorch's dispatcher.
#pragma once

#include <string>
#include <vector>

namespace hpu::torch_backend {

// Files of the loaded objects that are linked against libtorch or libc10, without PyTorch's own and
// this module; the program itself counts. Ordered by name. Cheap while no object is loaded anew.
std::vector<std::string> ExtensionLibraries();

}  // namespace hpu::torch_backend
