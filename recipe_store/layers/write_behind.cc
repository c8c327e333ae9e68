#include "recipe_store/layers/write_behind.h"

#include "base/log.h"

namespace hpu::store {

WriteBehind::WriteBehind(uint64_t max_bytes, size_t max_tasks)
    : max_bytes_(max_bytes), max_tasks_(max_tasks), thread_([this] { Run(); }) {}

WriteBehind::~WriteBehind() {
  Drain(kLastGrace);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    dropped_ += tasks_.size();
    if (!tasks_.empty()) {
      HPU_LOG(kWarning, "not written to the shared store before the end count=" << tasks_.size());
    }
    work_.notify_all();
  }
  thread_.join();
}

void WriteBehind::Add(uint64_t bytes, std::function<void()> task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return;
  if (bytes > 0 && (bytes_ + bytes > max_bytes_ || tasks_.size() >= max_tasks_)) {
    if (dropped_++ == 0) {
      HPU_LOG(kWarning, "the shared store is slower than what is compiled; not all is written");
    }
    return;
  }
  tasks_.push_back({bytes, std::move(task)});
  bytes_ += bytes;
  ++added_;
  work_.notify_one();
}

bool WriteBehind::Drain(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t target = added_;
  return done_.wait_for(lock, patience, [&] { return finished_ >= target; });
}

void WriteBehind::Run() {
  while (true) {
    Task task;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    // One thread runs all tasks, so an exception of one must not end the others.
    try {
      task.run();
    } catch (const std::exception& error) {
      HPU_LOG(kError, "writing to the shared store failed error=" << error.what());
    }
    // This frees what the task kept before the task counts as finished.
    task.run = nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    bytes_ -= task.bytes;
    ++finished_;
    done_.notify_all();
  }
}

void WriteBehind::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["shared.dropped_writes"] += dropped_;
  std::lock_guard<std::mutex> lock(mutex_);
  counters["shared.waiting_writes"] += added_ - finished_;
}

}  // namespace hpu::store
