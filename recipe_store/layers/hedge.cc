#include "recipe_store/layers/hedge.h"

#include <utility>

namespace hpu::store {
namespace {

// The place's timeouts bound a look-up, so a few threads get through many.
constexpr size_t kMaxThreads = 32;
constexpr size_t kMaxWaiting = 256;

}  // namespace

thread_local int PatientScope::depth_ = 0;

Hedge::Hedge(std::string name, std::chrono::milliseconds after)
    : name_(std::move(name)), after_(after) {}

Hedge::~Hedge() { Stop(); }

void Hedge::OnArrival(ArrivalSink sink) {
  std::lock_guard<std::mutex> lock(sink_mutex_);
  sink_ = std::move(sink);
}

void Hedge::Stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    waiting_.clear();
    threads.swap(threads_);
    work_.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
}

bool Hedge::Run(std::function<void()> look_up) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_ || waiting_.size() >= kMaxWaiting) return false;
  waiting_.push_back(std::move(look_up));
  if (waiting_.size() > idle_ && threads_.size() < kMaxThreads) {
    threads_.emplace_back([this] { ThreadLoop(); });
  }
  work_.notify_one();
  return true;
}

void Hedge::ThreadLoop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ++idle_;
    work_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (stopping_) return;
    const std::function<void()> look_up = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    look_up();
    lock.lock();
  }
}

Hedge::Time Hedge::Deadline(Time begin) const {
  return slow_ ? std::chrono::steady_clock::now() : begin + after_;
}

void Hedge::NoteOverdue() {
  ++hedged_;
  slow_ = true;
}

void Hedge::NoteEnd(Time begin) {
  if (std::chrono::steady_clock::now() - begin <= after_) slow_ = false;
}

void Hedge::NoteArrival(const Digest& content_key) {
  ++late_;
  std::lock_guard<std::mutex> lock(sink_mutex_);
  if (sink_) sink_(content_key);
}

void Hedge::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters[name_ + ".hedged"] += hedged_;
  counters[name_ + ".late"] += late_;
}

}  // namespace hpu::store
