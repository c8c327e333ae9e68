// The main function of a compile server with a given compiler: options, log and signals.
#pragma once

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

// Serves until it is told to stop, or works as a compile worker (--worker). Returns the exit code:
// 0 after an orderly end, 1 for an error that was logged, 3 if another server already listens on
// the socket.
int ServerMain(int argc, char** argv, const BackendFactory& factory);

}  // namespace hpu::server
