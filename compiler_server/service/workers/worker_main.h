// The code that runs in a worker process.
#pragma once

#include <cstdint>

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

struct WorkerLimits {
  uint64_t address_space_bytes = 0;  // RLIMIT_AS; 0 = none
};

// The exit code of a worker whose allocation was refused. It does not continue after that: the
// refusal may have met any code on any thread, for example LLVM's, and left it half done.
inline constexpr int kExitOutOfMemory = 12;

// The socket's descriptor number in a worker.
inline constexpr int kWorkerSocket = 3;

// Answers requests on kWorkerSocket until the server closes it, and returns the process's exit
// code. If the backend cannot be made, every request is answered with that error.
int RunWorker(const BackendFactory& factory, const WorkerLimits& limits);

}  // namespace hpu::server
