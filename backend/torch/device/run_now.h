// Calls of a thread that are not recorded, although its stream has a recording.
#pragma once

namespace hpu::torch_backend {

// While it lives, calls of its thread run at once.
class CallsRunNow {
 public:
  CallsRunNow();
  ~CallsRunNow();
  CallsRunNow(const CallsRunNow&) = delete;
  CallsRunNow& operator=(const CallsRunNow&) = delete;

  // Returns whether one lives in this thread.
  static bool IsSet();
};

}  // namespace hpu::torch_backend
