// The lock of the recorder's state.
#pragma once

#include <mutex>

#include "backend/torch/programs/gil_release.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {

// Waits for the mutex without the GIL, because whoever has the mutex may need the GIL to go on. A
// thread may lock it again: Python's garbage collection runs while the front end makes a program,
// and an object that it finalizes may be a capture.
class Recorder::Lock {
 public:
  explicit Lock(std::recursive_mutex& mutex) : lock_(mutex, std::try_to_lock) {
    if (lock_.owns_lock()) return;
    const GilRelease no_gil;
    lock_.lock();
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

}  // namespace hpu::torch_backend
