// A stream is a queue of work that runs in order on one thread at a time.
//
// A thread that waits for the stream runs the work, or else the stream's own worker thread does (it
// starts with the first work and gives the waiters some microseconds). synStreamSynchronize right
// after a launch then costs no thread switch, and no third thread takes a core from the two that
// compute. While waiters run everything the worker polls once per millisecond, so that a launch
// need not wake it. The right to run is a mutex, so order is kept either way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator/base/usage.h"
#include "emulator/streams/progress.h"
#include "emulator/streams/work_order.h"

namespace hpu::emulator {

// One piece of queued work. It is destroyed before it counts as done.
class Work {
 public:
  virtual ~Work() = default;
  // A failure stays with the stream until a thread synchronises with it.
  virtual synStatus Run() = 0;
  // These are for messages: what the work is, and where it was queued.
  virtual std::string Name() const { return ""; }
  virtual std::string Place() const { return ""; }
  // Returns the time that it is expected to take, where that may be long.
  virtual std::chrono::nanoseconds Expected() const { return std::chrono::nanoseconds(0); }
  // Says what strict mode checks the order of.
  virtual std::vector<MemoryUse> Uses() const { return {}; }
};

class Stream {
 public:
  explicit Stream(std::atomic<uint64_t>* inline_executions)
      : progress_(std::make_shared<Progress>()), inline_executions_(inline_executions) {}
  // `usage` and `order` outlive the stream. In strict mode, where `order` is not null, the order of
  // its work is checked and its work is delayed.
  Stream(std::atomic<uint64_t>* inline_executions, Usage* usage, WorkOrder* order)
      : Stream(inline_executions) {
    usage_ = usage;
    order_ = order;
    if (order != nullptr) number_ = order->AddStream();
  }
  // Finishes the queued work first.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Returns the work's sequence number. A thread that is far ahead of the stream waits for it here,
  // as it does at the queue of a card, so that what reads a result later does not wait for long.
  uint64_t Enqueue(std::unique_ptr<Work> work);
  // Counts a launch that is about to be enqueued, and returns which one of the stream it is.
  uint64_t CountLaunch() { return launches_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Returns the sequence number of the last work; 0 means that there is none yet.
  uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  const std::shared_ptr<Progress>& progress() const { return progress_; }
  // The caller tells the host the answer.
  bool idle() const;
  // Returns the point that the queue, with `more` further pieces of work, has reached in the order
  // of all work. Returns null except in strict mode.
  std::shared_ptr<const WorkOrder::Clock> Point(uint64_t more = 0) const;
  // Orders later work after a point of another stream.
  void OrderAfter(const std::shared_ptr<const WorkOrder::Clock>& point);

  // Returns when the work numbered `sequence` and all before it have ended; runs the work itself if
  // no other thread does.
  void WaitFor(uint64_t sequence);
  // Returns when all work queued before the call has ended; returns and clears the stream's
  // failure.
  synStatus Synchronize();

  uint64_t affinity() const { return affinity_.load(std::memory_order_relaxed); }
  void set_affinity(uint64_t mask) { affinity_.store(mask, std::memory_order_relaxed); }

 private:
  void WorkerLoop();
  bool HasWork();
  // Whether the queued work is too much to add to.
  bool IsFull() const;
  // Returns when the stream is no longer full, or when no work ends for long, because what it waits
  // for may have to be queued by the same thread.
  void WaitForRoom() const;
  // Tells the worker that there is work.
  void Announce();
  // Runs queued work while `wanted`. The caller holds run_mutex_.
  template <typename Condition>
  void RunWhile(const Condition& wanted);
  // Gives a waiting thread a little time to begin. Returns true if nothing is left for the worker.
  bool LeaveToWaiter();
  // Checks from time to time whether a launch was left without a waiter; ends when one was, or when
  // launches cease.
  void Poll();
  // The caller holds run_mutex_. Returns false if the queue is empty.
  bool RunNext();
  // Queued work that conflicts with other work fails the stream.
  void CheckOrder(const Work& work);
  void HostWaited(const std::shared_ptr<const WorkOrder::Clock>& point) const;

  const std::shared_ptr<Progress> progress_;
  std::atomic<uint64_t>* const inline_executions_;
  std::atomic<uint64_t> affinity_{0};
  Usage* usage_ = nullptr;      // null for a stream without a device
  WorkOrder* order_ = nullptr;  // null except in strict mode
  uint32_t number_ = 0;         // in `order_`

  std::mutex run_mutex_;  // the right to take work from the queue and run it

  std::mutex queue_mutex_;
  struct Queued {
    std::unique_ptr<Work> work;
    std::chrono::nanoseconds expected;
  };
  std::deque<Queued> queue_;
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> tail_{0};
  std::atomic<int64_t> queued_ns_{0};  // the time that the queued work is expected to take
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};   // a thread takes work from the queue
  std::atomic<bool> polling_{false};   // the worker need not be woken
  std::atomic<uint32_t> arrivals_{0};  // the worker sleeps on this
  std::thread worker_;
};

}  // namespace hpu::emulator
