#include "emulator/streams/event.h"

#include "emulator/base/clock.h"
#include "emulator/base/status.h"

namespace hpu::emulator {

void Capture::Wait() const {
  if (Done()) return;
  if (const std::shared_ptr<Stream> running = stream.lock()) {
    running->WaitFor(sequence);
  } else {
    progress->Wait(sequence);
  }
}

bool Event::recorded() const {
  std::lock_guard lock(mutex_);
  return recorded_;
}

Capture Event::capture() const {
  std::lock_guard lock(mutex_);
  return capture_;
}

void Event::set_capture(Capture capture) {
  std::lock_guard lock(mutex_);
  recorded_ = true;
  capture_ = std::move(capture);
}

void Event::set_mapping(Mapping mapping) {
  std::lock_guard lock(mutex_);
  mapping_ = mapping;
}

std::optional<Event::Mapping> Event::TakeMapping() {
  std::lock_guard lock(mutex_);
  return std::exchange(mapping_, std::nullopt);
}

synStatus WaitWork::Run() {
  capture_.Wait();
  if (!capture_.CollectiveFailed()) return synSuccess;
  return FailWith(synFailHccl, capture_.progress->reason());
}

synStatus StampWork::Run() {
  stamp_->store(NowNanoseconds(), std::memory_order_release);
  return synSuccess;
}

}  // namespace hpu::emulator
