#include "compiler_server/service/queue/flight.h"

namespace hpu::server {

Flight::View Flight::Wait(uint64_t seen, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return view_.version > seen; });
  return view_;
}

void Flight::SetPosition(uint32_t position) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (view_.position == position) return;
  view_.position = position;
  ++view_.version;
  changed_.notify_all();
}

void Flight::Start() {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.started = true;
  ++view_.version;
  changed_.notify_all();
}

void Flight::WaitAgain() {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.started = false;
  ++view_.version;
  changed_.notify_all();
}

void Flight::SetProgress(const CompileProgress& progress) {
  std::lock_guard<std::mutex> lock(mutex_);
  view_.progress = progress;
  ++view_.version;
  changed_.notify_all();
}

void Flight::Finish(absl::StatusOr<Landing> result) {
  std::lock_guard<std::mutex> lock(mutex_);
  HPU_CHECK(!view_.result.has_value(), "a flight ends once");
  view_.result = std::move(result);
  ++view_.version;
  changed_.notify_all();
}

}  // namespace hpu::server
