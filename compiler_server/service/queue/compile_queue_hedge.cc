// This part of the queue deals with other servers: with those that are silent, with those that do
// not have the program, and with programs that come from elsewhere.
#include "compiler_server/service/queue/compile_queue.h"

namespace hpu::server {

void CompileQueue::WatchThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (!arrived_.empty()) {
      const Digest key = arrived_.back();
      arrived_.pop_back();
      lock.unlock();
      LookForArrived(key);
      lock.lock();
    } else if (asked_.empty()) {
      watch_.wait(lock);
    } else if (asked_.front().first > std::chrono::steady_clock::now()) {
      watch_.wait_until(lock, asked_.front().first);
    } else {
      const std::shared_ptr<InflightCompilation> inflight = std::move(asked_.front().second);
      asked_.pop_front();
      Hedge(*inflight);
    }
  }
}

void CompileQueue::NoteLife(const InflightCompilation& inflight) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Waiting* const waiting = Find(inflight)) waiting->heard = true;
}

// Callers hold mutex_.
void CompileQueue::Hedge(InflightCompilation& inflight) {
  Waiting* const waiting = Find(inflight);
  if (waiting == nullptr || waiting->heard || waiting->to_compile || waiting->compiling) return;
  ++hedged_;
  waiting->hedged = true;
  if (waiting->waiters == 0) return;
  inflight.WaitAgain();
  Wait(compile_, *waiting);
}

void CompileQueue::ReturnToCompile(const std::shared_ptr<InflightCompilation>& inflight) {
  bool is_complete = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Waiting* const waiting = Find(*inflight);
    is_complete = waiting == nullptr || waiting->has_result;
    if (!is_complete) {
      --waiting->threads;
      if (waiting->compiling) return;
      if (!stopping_) {
        if (waiting->waiters == 0) {  // everybody has left meanwhile
          ++abandoned_;
          inflight_.erase(inflight->job().inflight_key);
        } else if (!waiting->to_compile) {
          inflight->WaitAgain();
          Wait(compile_, *waiting);
        }
        return;
      }
      inflight_.erase(inflight->job().inflight_key);
    }
  }
  if (!is_complete) {
    inflight->Finish(Stopping());
  } else if (hooks_.completed) {
    // A lease that came so late belongs to no compilation any more.
    hooks_.completed(inflight->job());
  }
}

void CompileQueue::Arrived(const Digest& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  arrived_.push_back(key);
  watch_.notify_one();
}

void CompileQueue::LookForArrived(const Digest& key) {
  std::vector<std::shared_ptr<InflightCompilation>> wanted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, waiting] : inflight_) {
      const CompileJob& job = waiting.inflight->job();
      if (job.key == key && !job.skip_cache_lookup) wanted.push_back(waiting.inflight);
    }
  }
  for (const std::shared_ptr<InflightCompilation>& inflight : wanted) {
    // The tenant of the compilation decides whether it may have the program.
    absl::StatusOr<store::Entry> entry = hooks_.look_up(inflight->job());
    if (!entry.ok()) continue;
    Complete(*inflight, CompileResult{*std::move(entry), /*from_store=*/true}, /*compiled=*/false);
  }
}

}  // namespace hpu::server
