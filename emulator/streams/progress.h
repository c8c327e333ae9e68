// Counts how much of a stream's work is done. The stream and the events that captured a point of it
// share it, so that the events can outlive the stream.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "emulator/base/spin.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

class Progress {
 public:
  // Returns the number of pieces of work that ended. Work is numbered from 1 in order.
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool Reached(uint64_t sequence) const { return completed() >= sequence; }

  // Called by the one thread that executes the stream.
  void Advance() {
    completed_.fetch_add(1, std::memory_order_release);
    changes_.fetch_add(1, std::memory_order_release);
    changes_.notify_all();
  }

  void Wait(uint64_t sequence) const {
    for (;;) {
      const uint32_t seen = changes_.load(std::memory_order_acquire);
      if (Reached(sequence)) return;
      SpinThenWait(changes_, seen);
    }
  }

  // Keeps the first failure since the last TakeFailure; the value is synSuccess if there is none.
  // `reason` goes into the message of the call that reports the failure.
  void Fail(synStatus status, std::string reason = "") {
    std::lock_guard lock(reason_mutex_);
    int expected = synSuccess;
    if (failure_.compare_exchange_strong(expected, status)) reason_ = std::move(reason);
  }
  // Returns the reason of the last failure.
  std::string reason() const {
    std::lock_guard lock(reason_mutex_);
    return reason_;
  }
  synStatus failure() const { return static_cast<synStatus>(failure_.load()); }
  synStatus TakeFailure() { return static_cast<synStatus>(failure_.exchange(synSuccess)); }

 private:
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint32_t> changes_{0};  // waiters sleep on this
  std::atomic<int> failure_{synSuccess};
  mutable std::mutex reason_mutex_;
  std::string reason_;
};

}  // namespace hpu::emulator
