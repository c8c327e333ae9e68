// A stream: a queue of work that runs in order on one thread at a time.
//
// Who runs it: the stream's own worker thread (started with the first work), or a thread that waits
// for the stream while the worker has not begun: synStreamSynchronize right after a launch then
// costs no thread switch. The right to run is a mutex, so order is kept either way.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "synapse/emulator/streams/progress.h"

namespace hpu::emulator {

// One piece of queued work. Destroyed before it counts as done.
class Work {
 public:
  virtual ~Work() = default;
  // A failure stays with the stream until somebody synchronises with it.
  virtual synStatus Run() = 0;
};

class Stream {
 public:
  explicit Stream(std::atomic<uint64_t>* inline_executions)
      : progress_(std::make_shared<Progress>()), inline_executions_(inline_executions) {}
  // Finishes the queued work first.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The work's sequence number.
  uint64_t Enqueue(std::unique_ptr<Work> work);
  // Sequence number of the last work; 0 = none yet.
  uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  bool idle() const { return progress_->Reached(tail()); }

  // Until the work numbered `sequence` and all before it ended; runs it itself if nobody does.
  void WaitFor(uint64_t sequence);
  // Until all work queued before the call ended; answers and clears the stream's failure.
  synStatus Synchronize();

  uint64_t affinity() const { return affinity_.load(std::memory_order_relaxed); }
  void set_affinity(uint64_t mask) { affinity_.store(mask, std::memory_order_relaxed); }

 private:
  void WorkerLoop();
  // The caller holds run_mutex_. False: the queue is empty.
  bool RunNext();

  const std::shared_ptr<Progress> progress_;
  std::atomic<uint64_t>* const inline_executions_;
  std::atomic<uint64_t> affinity_{0};

  std::mutex run_mutex_;  // the right to take work from the queue and run it

  std::mutex queue_mutex_;
  std::deque<std::unique_ptr<Work>> queue_;
  std::atomic<uint64_t> tail_{0};
  bool stop_ = false;
  std::atomic<uint32_t> arrivals_{0};  // what the worker sleeps on
  std::thread worker_;
};

}  // namespace hpu::emulator
