#include "compiler_server/service/queue/inflight_compilation.h"

namespace hpu::server {

InflightCompilation::View InflightCompilation::Wait(uint64_t seen,
                                                    std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return view_.version > seen; });
  return view_;
}

void InflightCompilation::SetPosition(uint32_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (view_.position == position) return;
  view_.position = position;
  ++view_.version;
  changed_.notify_all();
}

void InflightCompilation::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.started = true;
  ++view_.version;
  changed_.notify_all();
}

void InflightCompilation::WaitAgain() {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.started = false;
  ++view_.version;
  changed_.notify_all();
}

void InflightCompilation::SetProgress(const CompileProgress& progress) {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.progress = progress;
  ++view_.version;
  changed_.notify_all();
}

void InflightCompilation::Finish(absl::StatusOr<CompileResult> result) {
  std::lock_guard<std::mutex> lock(mutex_);
  HPU_CHECK(!view_.result.has_value(), "a compilation finishes once");
  view_.result = std::move(result);
  ++view_.version;
  changed_.notify_all();
}

}  // namespace hpu::server
