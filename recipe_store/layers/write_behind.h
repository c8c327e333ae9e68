// WriteBehind does work for a slow store that no caller waits for. One thread does it in order. The
// queue is bounded in bytes and in number, and what does not fit is dropped and counted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace hpu::store {

// Thread-safe.
class WriteBehind {
 public:
  WriteBehind(uint64_t max_bytes, size_t max_tasks);
  // Does what is left for up to kLastGrace, then drops the rest.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  static constexpr std::chrono::seconds kLastGrace{5};

  // `bytes` is what the task keeps in memory until it has run. A task of 0 bytes is always taken.
  void Add(uint64_t bytes, std::function<void()> task);

  // Waits until everything that was added before has run, and returns true, or until `patience` is
  // over.
  bool Drain(std::chrono::milliseconds patience);

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  struct Task {
    uint64_t bytes = 0;
    std::function<void()> run;
  };

  void Run();

  const uint64_t max_bytes_;
  const size_t max_tasks_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  // The fields below are guarded by mutex_.
  std::deque<Task> tasks_;
  uint64_t bytes_ = 0;  // the bytes of tasks_ and of the task that runs
  uint64_t added_ = 0;
  uint64_t finished_ = 0;
  bool stopping_ = false;

  std::atomic<uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace hpu::store
