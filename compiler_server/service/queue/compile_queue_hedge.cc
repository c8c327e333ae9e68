// Flights and others: those who say nothing, who give nothing, and programs that come from
// elsewhere.
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
      const std::shared_ptr<Flight> flight = std::move(asked_.front().second);
      asked_.pop_front();
      Hedge(*flight);
    }
  }
}

void CompileQueue::NoteLife(const Flight& flight) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Waiting* const waiting = Find(flight)) waiting->heard = true;
}

// mutex_ held.
void CompileQueue::Hedge(Flight& flight) {
  Waiting* const waiting = Find(flight);
  if (waiting == nullptr || waiting->heard || waiting->to_compile || waiting->compiling) return;
  ++hedged_flights_;
  waiting->hedged = true;
  if (waiting->seats == 0) return;
  flight.WaitAgain();
  Wait(compile_, *waiting);
}

void CompileQueue::ReturnToCompile(const std::shared_ptr<Flight>& flight) {
  bool has_landed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Waiting* const waiting = Find(*flight);
    has_landed = waiting == nullptr || waiting->landing;
    if (!has_landed) {
      --waiting->threads;
      if (waiting->compiling) return;
      if (!stopping_) {
        if (waiting->seats == 0) {  // everybody has left meanwhile
          ++abandoned_;
          flights_.erase(flight->job().flight);
        } else if (!waiting->to_compile) {
          flight->WaitAgain();
          Wait(compile_, *waiting);
        }
        return;
      }
      flights_.erase(flight->job().flight);
    }
  }
  if (!has_landed) {
    flight->Finish(Stopping());
  } else if (hooks_.landed) {
    // Its lease, if it came so late, is nobody's.
    hooks_.landed(flight->job());
  }
}

void CompileQueue::Arrived(const Digest& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  arrived_.push_back(key);
  watch_.notify_one();
}

void CompileQueue::LookForArrived(const Digest& key) {
  std::vector<std::shared_ptr<Flight>> wanted;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, waiting] : flights_) {
      const CompileJob& job = waiting.flight->job();
      if (job.key == key && !job.skip_cache_lookup) wanted.push_back(waiting.flight);
    }
  }
  for (const std::shared_ptr<Flight>& flight : wanted) {
    // Whose it is decides whether the flight may have it.
    absl::StatusOr<store::Entry> entry = hooks_.look_up(flight->job());
    if (!entry.ok()) continue;
    Land(*flight, Landing{*std::move(entry), /*from_store=*/true}, /*compiled=*/false);
  }
}

}  // namespace hpu::server
