// Work for a slow store that nobody waits for: done in order by one thread, bounded in bytes and
// number. What does not fit is dropped and counted.
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

class WriteBehind {
 public:
  WriteBehind(uint64_t max_bytes, size_t max_tasks);
  // Does what is left for up to kLastGrace, then drops the rest.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  static constexpr std::chrono::seconds kLastGrace{5};

  // `bytes`: what the task keeps in memory until it has run. Tasks of 0 bytes are always taken.
  void Add(uint64_t bytes, std::function<void()> task);

  // Until all that was added before has run, or `patience` is over; whether it has.
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
  // Guarded by mutex_.
  std::deque<Task> tasks_;
  uint64_t bytes_ = 0;  // of tasks_ and of the one that runs
  uint64_t added_ = 0;
  uint64_t finished_ = 0;
  bool stopping_ = false;

  std::atomic<uint64_t> dropped_{0};
  std::thread thread_;
};

}  // namespace hpu::store
