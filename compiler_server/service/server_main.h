// Flags, log, signals: the main function of a compile server around a given compiler.
#pragma once

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

// Serves until told to stop, or works as a compile worker (--worker). The exit code: 0 after an
// orderly end, 1 for an error that was logged, 3 if another server already listens on the socket.
int ServerMain(int argc, char** argv, const BackendFactory& factory);

}  // namespace hpu::server
