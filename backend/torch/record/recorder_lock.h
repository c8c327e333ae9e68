// The lock of the recorder's state.
#pragma once

#include <mutex>

#include "backend/torch/programs/gil_release.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {

// Waits for the mutex without the GIL, because whoever has the mutex may need the GIL to go on.
class Recorder::Lock {
 public:
  explicit Lock(std::mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    const GilRelease no_gil;
    lock_.lock();
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace hpu::torch_backend
