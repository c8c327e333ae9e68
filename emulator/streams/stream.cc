#include "emulator/streams/stream.h"

#include <cstdio>

#include "emulator/base/counters.h"
#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

constexpr std::chrono::microseconds kGrace{30};  // from a launch's return to the wait for it
constexpr std::chrono::milliseconds kPollTime{1};
constexpr int kMostIdlePolls = 20;
constexpr int kLeftBeforePolling = 4;

// A thread may run ahead of a stream by this number of pieces of work, or by this time, but always
// by some pieces.
constexpr uint64_t kMostQueued = 1024;
constexpr std::chrono::nanoseconds kMostAhead = std::chrono::seconds(1);
constexpr uint64_t kLeastQueued = 16;
constexpr std::chrono::seconds kPatience{10};  // without an end of any work
constexpr std::chrono::microseconds kRoomPoll{100};

}  // namespace

Stream::~Stream() {
  {
    std::lock_guard lock(queue_mutex_);
    stop_.store(true);
  }
  arrivals_.fetch_add(1);
  arrivals_.notify_one();
  if (worker_.joinable()) worker_.join();
}

bool Stream::IsFull() const {
  const uint64_t queued = tail() - progress_->completed();
  return queued >= kMostQueued || (queued >= kLeastQueued &&
                                   queued_ns_.load(std::memory_order_relaxed) > kMostAhead.count());
}

void Stream::WaitForRoom() const {
  uint64_t completed = progress_->completed();
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (IsFull() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kRoomPoll);
    const uint64_t now = progress_->completed();
    if (now != completed) deadline = std::chrono::steady_clock::now() + kPatience;
    completed = now;
  }
}

uint64_t Stream::Enqueue(std::unique_ptr<Work> work) {
  if (IsFull()) WaitForRoom();
  const std::chrono::nanoseconds expected = work->Expected();
  queued_ns_.fetch_add(expected.count(), std::memory_order_relaxed);
  uint64_t sequence = 0;
  {
    std::lock_guard lock(queue_mutex_);
    if (order_ != nullptr) CheckOrder(*work);
    queue_.push_back({std::move(work), expected});
    sequence = tail_.load(std::memory_order_relaxed) + 1;
    tail_.store(sequence, std::memory_order_release);
    if (!worker_.joinable()) worker_ = std::thread([this] { WorkerLoop(); });
  }
  Announce();
  return sequence;
}

void Stream::CheckOrder(const Work& work) {
  std::vector<MemoryUse> uses = work.Uses();
  if (uses.empty()) return;
  std::string wrong = order_->Add(number_, work.Name(), uses);
  if (wrong.empty()) return;
  std::fprintf(stderr, "EMULATOR_STRICT: %s\n", wrong.c_str());
  progress_->Fail(synFail, wrong + work.Place());
}

std::shared_ptr<const WorkOrder::Clock> Stream::Point(uint64_t more) const {
  if (order_ == nullptr) return nullptr;
  return std::make_shared<const WorkOrder::Clock>(order_->Reached(number_, more));
}

void Stream::OrderAfter(const std::shared_ptr<const WorkOrder::Clock>& point) {
  if (order_ != nullptr && point != nullptr) order_->StreamWaits(number_, *point);
}

void Stream::HostWaited(const std::shared_ptr<const WorkOrder::Clock>& point) const {
  if (order_ != nullptr) order_->HostWaited(*point);
}

bool Stream::idle() const {
  const std::shared_ptr<const WorkOrder::Clock> point = Point();
  if (!progress_->Reached(tail())) return false;
  HostWaited(point);
  return true;
}

void Stream::Announce() {
  arrivals_.fetch_add(1);
  // Either the worker sees the arrival before it sleeps, or this thread sees that the worker no
  // longer polls.
  if (!polling_.load()) arrivals_.notify_one();
}

bool Stream::RunNext() {
  Queued next;
  {
    std::lock_guard lock(queue_mutex_);
    if (queue_.empty()) return false;
    next = std::move(queue_.front());
    queue_.pop_front();
  }
  std::unique_ptr<Work> work = std::move(next.work);
  if (order_ != nullptr) {
    std::this_thread::sleep_for(order_->Delay(number_, progress_->completed()));
  }
  LastError& last = ThreadLastError();
  last.has_message = false;
  if (usage_ != nullptr) usage_->Begin();
  const synStatus status = work->Run();
  if (usage_ != nullptr) usage_->End();
  if (status != synSuccess) {
    const std::string name = work->Name() + work->Place();
    const std::string message = last.has_message ? last.message : "";
    progress_->Fail(status, name + (name.empty() || message.empty() ? "" : ": ") + message);
  }
  work.reset();
  queued_ns_.fetch_sub(next.expected.count(), std::memory_order_relaxed);
  progress_->Advance();
  return true;
}

bool Stream::HasWork() {
  std::lock_guard lock(queue_mutex_);
  return !queue_.empty();
}

template <typename Condition>
void Stream::RunWhile(const Condition& wanted) {
  running_.store(true, std::memory_order_release);
  while (wanted() && RunNext()) {
  }
  running_.store(false, std::memory_order_release);
}

bool Stream::LeaveToWaiter() {
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  do {
    if (running_.load(std::memory_order_acquire) || !HasWork()) return true;
    SpinOnce();
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

void Stream::Poll() {
  polling_.store(true);
  uint32_t seen = arrivals_.load();
  for (int idle = 0; idle < kMostIdlePolls && !stop_.load();) {
    std::this_thread::sleep_for(kPollTime);
    if (HasWork() && !running_.load(std::memory_order_acquire)) break;
    const uint32_t now = arrivals_.load();
    idle = now == seen ? idle + 1 : 0;
    seen = now;
  }
  polling_.store(false);
}

void Stream::WorkerLoop() {
  int left_to_waiters = 0;  // in a row
  for (;;) {
    const uint32_t seen = arrivals_.load();
    if (!LeaveToWaiter()) {
      left_to_waiters = 0;
      std::lock_guard run(run_mutex_);
      RunWhile([] { return true; });
    } else if (++left_to_waiters >= kLeftBeforePolling) {
      left_to_waiters = 0;
      Poll();
      continue;
    }
    if (stop_.load() && !HasWork()) return;
    SpinThenWait(arrivals_, seen);
  }
}

void Stream::WaitFor(uint64_t sequence) {
  if (progress_->Reached(sequence)) return;
  bool ran = false;
  {
    std::unique_lock run(run_mutex_, std::try_to_lock);
    ran = run.owns_lock();
    if (ran) {
      RunWhile([&] {
        if (progress_->Reached(sequence)) return false;
        Count(*inline_executions_);
        return true;
      });
    }
  }
  // The thread with the right to run leaves the rest to the worker.
  if (ran && HasWork()) Announce();
  progress_->Wait(sequence);
}

synStatus Stream::Synchronize() {
  const std::shared_ptr<const WorkOrder::Clock> point = Point();
  WaitFor(tail());
  HostWaited(point);
  return progress_->TakeFailure();
}

}  // namespace hpu::emulator
