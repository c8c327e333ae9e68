// Runs work on several threads that exist only for its duration.
#pragma once

#include <cstddef>
#include <functional>

namespace hpu {

// Calls work(0) .. work(count - 1), each once, on the calling thread and up to `threads` - 1
// others; returns when all calls have ended. If the system refuses a thread, the others do its
// share. The first exception of `work` is thrown here after that; calls that had not begun by then
// are left out.
void ParallelFor(size_t count, size_t threads, const std::function<void(size_t)>& work);

}  // namespace hpu
