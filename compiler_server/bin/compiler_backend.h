// The product's compiler as the service's backend: opens the Synapse library, runs compiler/.
#pragma once

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

// NOT_FOUND, FAILED_PRECONDITION: no usable Synapse library (synapse/loader.h says which is tried).
absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCompilerBackend();

}  // namespace hpu::server
