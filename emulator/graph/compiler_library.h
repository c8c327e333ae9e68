// Opens libSynapseCompiler.so, which lies beside libSynapse.so, on first use.
#pragma once

#include "base/status.h"
#include "graph_compiler/compiler_door.h"

namespace hpu::emulator {

using graph_compiler::CompileOptions;
using graph_compiler::CompilerDoor;

// Returns NOT_FOUND if the library cannot be opened and FAILED_PRECONDITION if it is from another
// build. After a failure the next call tries again. Thread-safe.
absl::StatusOr<const CompilerDoor*> OpenCompiler();

}  // namespace hpu::emulator
