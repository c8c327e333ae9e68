// Opens libSynapseCompiler.so, which lies beside libSynapse.so, on first use.
#pragma once

#include "base/status.h"
#include "graph_compiler/compiler_door.h"

namespace hpu::emulator {

using graph_compiler::CompileOptions;
using graph_compiler::CompilerDoor;

// NOT_FOUND: cannot be opened. FAILED_PRECONDITION: it is of another build. A failure is tried anew
// at the next call. Thread-safe.
absl::StatusOr<const CompilerDoor*> OpenCompiler();

}  // namespace hpu::emulator
