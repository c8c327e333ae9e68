// The product's compiler as the service's backend: it opens the Synapse library and runs compiler/.
#pragma once

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

// Returns NOT_FOUND or FAILED_PRECONDITION if there is no usable Synapse library (synapse/loader.h
// says which are tried).
absl::StatusOr<std::unique_ptr<CompileBackend>> MakeCompilerBackend();

}  // namespace hpu::server
