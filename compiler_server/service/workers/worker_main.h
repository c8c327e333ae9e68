// The inside of a worker process.
#pragma once

#include <cstdint>

#include "compiler_server/service/workers/compile_backend.h"

namespace hpu::server {

struct WorkerLimits {
  uint64_t address_space_bytes = 0;  // RLIMIT_AS; 0 = none
};

// How a worker ends whose allocation was refused. It does not go on after that: the refusal may
// have met any code on any thread, LLVM's among them, and left it half done.
inline constexpr int kExitOutOfMemory = 12;

// The socket's descriptor number in a worker.
inline constexpr int kWorkerSocket = 3;

// Answers requests on kWorkerSocket until the server closes it; the process's exit code. A backend
// that cannot be made is reported as the answer to every request.
int RunWorker(const BackendFactory& factory, const WorkerLimits& limits);

}  // namespace hpu::server
