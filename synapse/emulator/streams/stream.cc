#include "synapse/emulator/streams/stream.h"

#include "synapse/emulator/runtime/counters.h"

namespace hpu::emulator {

Stream::~Stream() {
  {
    std::lock_guard lock(queue_mutex_);
    stop_ = true;
  }
  arrivals_.fetch_add(1, std::memory_order_release);
  arrivals_.notify_one();
  if (worker_.joinable()) worker_.join();
}

uint64_t Stream::Enqueue(std::unique_ptr<Work> work) {
  uint64_t sequence = 0;
  {
    std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(work));
    sequence = tail_.load(std::memory_order_relaxed) + 1;
    tail_.store(sequence, std::memory_order_release);
    if (!worker_.joinable()) worker_ = std::thread([this] { WorkerLoop(); });
  }
  arrivals_.fetch_add(1, std::memory_order_release);
  arrivals_.notify_one();
  return sequence;
}

bool Stream::RunNext() {
  std::unique_ptr<Work> work;
  {
    std::lock_guard lock(queue_mutex_);
    if (queue_.empty()) return false;
    work = std::move(queue_.front());
    queue_.pop_front();
  }
  const synStatus status = work->Run();
  work.reset();
  if (status != synSuccess) progress_->Fail(status);
  progress_->Advance();
  return true;
}

void Stream::WorkerLoop() {
  for (;;) {
    const uint32_t seen = arrivals_.load(std::memory_order_acquire);
    {
      std::lock_guard run(run_mutex_);
      while (RunNext()) {
      }
    }
    {
      std::lock_guard lock(queue_mutex_);
      if (!queue_.empty()) continue;
      if (stop_) return;
    }
    SpinThenWait(arrivals_, seen);
  }
}

void Stream::WaitFor(uint64_t sequence) {
  if (progress_->Reached(sequence)) return;
  {
    std::unique_lock run(run_mutex_, std::try_to_lock);
    if (run.owns_lock()) {
      while (!progress_->Reached(sequence) && RunNext()) Count(*inline_executions_);
    }
  }
  // Whoever holds the right to run finishes or leaves the rest to the worker, which has been woken.
  progress_->Wait(sequence);
}

synStatus Stream::Synchronize() {
  WaitFor(tail());
  return progress_->TakeFailure();
}

}  // namespace hpu::emulator
