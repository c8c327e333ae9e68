// Single flight and admission: at most one compilation per content key, a bounded number at a time,
// a bounded number and size waiting, of all and of each tenant, in FairQueue's order. Who joins
// another's flight takes a place, too. Each compiling thread owns one worker process and keeps it
// warm. Where there are other servers to ask, a flight goes to them first, on threads of their own;
// if they say nothing for a while a worker of ours begins too, and the first result counts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "compiler_server/service/queue/fair_queue.h"
#include "compiler_server/service/queue/inflight_compilation.h"
#include "compiler_server/service/queue/tenant_budget.h"
#include "compiler_server/service/workers/worker_process.h"

namespace hpu::server {

struct QueueOptions {
  int workers = 2;
  unsigned threads = 1;  // of all compilations together
  size_t max_waiting = 1024;
  size_t max_waiting_of_tenant = 512;              // requests
  uint64_t max_request_bytes = uint64_t{1} << 30;  // graphs of requests
  std::chrono::seconds tenant_budget{0};           // compile seconds of a tenant per hour; 0 = any
  int forwards = 16;  // requests to other servers at a time, where there are some
  // How long other servers may say nothing before a worker of ours gets the flight too; 0: for
  // ever.
  std::chrono::milliseconds hedge_after{};
  std::chrono::milliseconds time_limit{};  // of one compilation; to be given
  std::vector<std::string> worker_command;
  uint64_t worker_memory_bytes = uint64_t{64} << 30;  // address space of one worker; 0 = no limit
};

// What happens around a compilation; called on queue threads, without locks.
struct QueueHooks {
  // Last look before compiling: another request may have finished in between. NOT_FOUND = compile.
  std::function<absl::StatusOr<store::Entry>(const CompileJob& job)> look_up;
  // Asks other servers for the program, which is filed when it returns. UNAVAILABLE: none gives it,
  // compile here. Empty: there are none.
  std::function<absl::StatusOr<CompileResult>(const CompileJob& job,
                                              const ProgressFunction& progress)>
      forward;
  // Makes the entry out of what the compiler gave, and files it.
  std::function<absl::StatusOr<store::Entry>(const CompileJob& job, CompileOutput output,
                                             std::chrono::microseconds duration)>
      publish;
  // A flight that a worker of ours had is over, well or not, and filed; perhaps said twice. Empty:
  // nobody wants to know.
  std::function<void(const CompileJob& job)> completed;
  // How long a worker took for a compilation, well or not. Empty: nobody wants to know.
  std::function<void(const absl::Status& result, std::chrono::microseconds duration)> timed;
  // Sees every failure of a compilation.
  std::function<void(const CompileJob& job, const absl::Status& failure)> fail;
};

// When to ask again, of a request that was refused for now (RESOURCE_EXHAUSTED).
std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status);

class CompileQueue {
 public:
  // A request's place in a flight; leaving it is enough to cancel. A flight that everybody has left
  // is dropped if it still waits; if it runs it is finished and stored.
  class Waiter {
   public:
    Waiter(CompileQueue* queue, std::shared_ptr<InflightCompilation> inflight, bool leader,
           std::string tenant)
        : queue_(queue),
          inflight_(std::move(inflight)),
          leader_(leader),
          tenant_(std::move(tenant)) {}
    Waiter(Waiter&& other) noexcept = default;
    Waiter& operator=(Waiter&&) = delete;
    ~Waiter();

    InflightCompilation& inflight() const { return *inflight_; }
    bool leader() const { return leader_; }  // this request began it

   private:
    CompileQueue* queue_;
    std::shared_ptr<InflightCompilation> inflight_;  // empty after a move
    bool leader_;
    std::string tenant_;  // of the request
  };

  CompileQueue(QueueOptions options, QueueHooks hooks);
  // Stop(0) if it was not stopped.
  ~CompileQueue();

  // Joins the job's flight or begins one. RESOURCE_EXHAUSTED, with a RetryHint: too much
  // is waiting, or the tenant has used its budget. UNAVAILABLE: stopping.
  absl::StatusOr<Waiter> Join(CompileJob job);

  // A program has come from elsewhere, and may be what flights of this content wait for: they are
  // looked up again, on another thread.
  void Arrived(const Digest& key);

  // Refuses new work, fails what waits, gives what runs `grace` to finish, then kills it.
  void Stop(std::chrono::milliseconds grace);

  size_t in_flight() const;
  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  struct Waiting {
    std::shared_ptr<InflightCompilation> inflight;
    int waiters = 0;
    bool warm_up = false;     // nobody who has a seat waits for it
    int threads = 0;          // that have it: one that asks other servers, one that compiles
    bool heard = false;       // others who were asked have given a sign of life
    bool hedged = false;      // they have not, in time
    bool to_compile = false;  // in the lane of the workers
    bool compiling = false;
    bool has_result = false;  // has its result
  };

  // Flights that wait for one kind of thread.
  struct Lane {
    std::condition_variable work;
    FairQueue keys;  // guarded by mutex_
  };

  // All with mutex_ held. Of any request; and of one that begins a flight.
  absl::Status AdmitWaiter(const CompileJob& job) const;
  absl::Status AdmitCompilation(const CompileJob& job);
  Waiter AddWaiter(Waiting& waiting, const CompileJob& job, bool leader);
  void Wait(Lane& lane, Waiting& waiting);
  // Null: it has landed.
  Waiting* Find(const InflightCompilation& inflight);
  // What a compilation that joins the queue now waits for, by what they took so far; mutex_ held.
  std::chrono::milliseconds ExpectedWait() const;
  void CompileThread(size_t index);
  void ForwardThread();
  void WatchThread();
  void NoteLife(const InflightCompilation& inflight);
  void Hedge(InflightCompilation& inflight);
  void LookForArrived(const Digest& key);
  std::shared_ptr<InflightCompilation> NextCompilation(Lane& lane);  // null = stop
  // Runs `code` for the flight's result, whatever it throws.
  using Attempt = std::function<absl::StatusOr<CompileResult>(const ProgressFunction& progress)>;
  static absl::StatusOr<CompileResult> Try(InflightCompilation& inflight, const Attempt& attempt);
  // Who is first gives the flight its result; of a `compiled` one `landed` is told in any case.
  void Complete(InflightCompilation& inflight, absl::StatusOr<CompileResult> result, bool compiled);
  void LetGo();
  static absl::Status Stopping();
  void ReturnToCompile(const std::shared_ptr<InflightCompilation>& inflight);
  absl::StatusOr<CompileResult> CompileOnce(size_t index, const CompileJob& job,
                                            const ProgressFunction& progress);
  // A share of the threads for a compilation that begins now: what runs shares them evenly.
  unsigned ThreadsOfOne() const;
  absl::StatusOr<WorkerProcess*> ReadyWorker(size_t index);
  void Leave(const InflightCompilation* inflight, const std::string& tenant);
  // mutex_ held. Positions in the queue of compilations; a request to another server has none.
  void TellPositions();

  const QueueOptions options_;
  const QueueHooks hooks_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::condition_variable watch_;
  Lane forward_;
  Lane compile_;
  // Guarded by mutex_. A worker object is made and destroyed by its thread only, with mutex_ held.
  std::map<Digest, Waiting> inflight_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  bool stopping_ = false;
  // Flights that others were asked for, by when they are to have given a sign of life.
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::shared_ptr<InflightCompilation>>>
      asked_;
  std::vector<Digest> arrived_;
  size_t running_ = 0;                     // flights that a thread has, for each thread
  uint64_t request_bytes_ = 0;             // of graphs, for each seat
  std::map<std::string, size_t> waiters_;  // by tenant; none is 0
  TenantBudget budget_;

  std::atomic<size_t> compiling_{0};  // of the running ones, in workers of ours
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> compile_micros_{0};  // of worker processes, failures included
  std::atomic<uint64_t> coalesced_{0};
  std::atomic<uint64_t> failed_{0};
  std::atomic<uint64_t> worker_losses_{0};
  std::atomic<uint64_t> abandoned_{0};
  std::atomic<uint64_t> hedged_{0};
  std::atomic<uint64_t> overtaken_{0};
  std::atomic<uint64_t> turned_away_{0};

  std::vector<std::thread> threads_;
};

}  // namespace hpu::server
