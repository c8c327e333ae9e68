// Joins equal requests and admits them. There is at most one compilation per content key at a time.
// The number that run, and the number and size that wait, are bounded, for all requests together
// and for each tenant; they run in FairQueue's order. A request that joins the in-flight
// compilation of another counts as waiting, too. Each compiling thread owns one worker process and
// keeps it running. Where there are other servers to ask, a compilation goes to them first, on
// threads of their own; if they do not answer for a while, a worker of ours begins too, and the
// first result counts.
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
  unsigned threads = 1;  // for all compilations together
  size_t max_waiting = 1024;
  size_t max_waiting_of_tenant = 512;              // requests
  uint64_t max_request_bytes = uint64_t{1} << 30;  // the graphs of all waiting requests
  std::chrono::seconds tenant_budget{0};  // compile seconds of a tenant per hour; 0 = no limit
  int forwards = 16;                      // requests to other servers at a time, if there are any
  // How long other servers may be silent before a worker of ours gets the compilation too; 0 = for
  // ever.
  std::chrono::milliseconds hedge_after{};
  std::chrono::milliseconds time_limit{};  // of one compilation; must be set
  std::vector<std::string> worker_command;
  uint64_t worker_memory_bytes = uint64_t{64} << 30;  // address space of one worker; 0 = no limit
};

// The queue calls these around a compilation, on its own threads and without holding a lock.
struct QueueHooks {
  // Looks a last time before compiling, because another request may have finished in between.
  // NOT_FOUND means that it must be compiled.
  std::function<absl::StatusOr<store::Entry>(const CompileJob& job)> look_up;
  // Asks other servers for the program, which is stored here when this returns. UNAVAILABLE means
  // that none of them gives it and that it is to be compiled here. Empty where there are no other
  // servers.
  std::function<absl::StatusOr<CompileResult>(const CompileJob& job,
                                              const ProgressFunction& progress)>
      forward;
  // Makes the entry from the compiler's output and stores it.
  std::function<absl::StatusOr<store::Entry>(const CompileJob& job, CompileOutput output,
                                             std::chrono::microseconds duration)>
      publish;
  // A compilation that a worker of ours ran has ended, with success or not, and its result is
  // stored. It may be called twice for one compilation. It may be empty.
  std::function<void(const CompileJob& job)> completed;
  // Reports how long a worker took for a compilation, whether it succeeded or not. It may be empty.
  std::function<void(const absl::Status& result, std::chrono::microseconds duration)> timed;
  // Is called for every failure of a compilation.
  std::function<void(const CompileJob& job, const absl::Status& failure)> fail;
};

// Returns when to ask again after a request was refused for now (RESOURCE_EXHAUSTED).
std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status);

class CompileQueue {
 public:
  // A request's share in an in-flight compilation; destroying it is enough to cancel. A compilation
  // that everybody has left is dropped if it still waits; if it runs, it is finished and stored.
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
  // Calls Stop(0) if the queue was not stopped.
  ~CompileQueue();

  // Joins the in-flight compilation of the job, or begins one. Returns RESOURCE_EXHAUSTED with a
  // RetryHint if too much is waiting or the tenant has used its budget, and UNAVAILABLE while the
  // queue is stopping.
  absl::StatusOr<Waiter> Join(CompileJob job);

  // A program has come from elsewhere, and compilations of this content may be waiting for it: they
  // are looked up again, on another thread.
  void Arrived(const Digest& key);

  // Refuses new work, fails what waits, gives what runs `grace` to finish, and then kills it.
  void Stop(std::chrono::milliseconds grace);

  size_t in_flight() const;
  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  struct Waiting {
    std::shared_ptr<InflightCompilation> inflight;
    int waiters = 0;
    bool warm_up = false;     // no waiter needs the result now
    int threads = 0;          // how many have it: one that asks other servers, one that compiles
    bool heard = false;       // the servers that were asked have sent something
    bool hedged = false;      // they did not in time
    bool to_compile = false;  // in the lane of the workers
    bool compiling = false;
    bool has_result = false;
  };

  // Compilations that wait for one kind of thread.
  struct Lane {
    std::condition_variable work;
    FairQueue keys;  // guarded by mutex_
  };

  // Callers hold mutex_. The first is for any request, the second for one that begins a
  // compilation.
  absl::Status AdmitWaiter(const CompileJob& job) const;
  absl::Status AdmitCompilation(const CompileJob& job);
  Waiter AddWaiter(Waiting& waiting, const CompileJob& job, bool leader);
  void Wait(Lane& lane, Waiting& waiting);
  // Null if it is complete.
  Waiting* Find(const InflightCompilation& inflight);
  // Estimates how long a compilation that joins the queue now will wait, from how long the
  // compilations so far took. Callers hold mutex_.
  std::chrono::milliseconds ExpectedWait() const;
  void CompileThread(size_t index);
  void ForwardThread();
  void WatchThread();
  void NoteLife(const InflightCompilation& inflight);
  void Hedge(InflightCompilation& inflight);
  void LookForArrived(const Digest& key);
  std::shared_ptr<InflightCompilation> NextCompilation(Lane& lane);  // null = stop
  // Runs `attempt` for the result, whatever it throws.
  using Attempt = std::function<absl::StatusOr<CompileResult>(const ProgressFunction& progress)>;
  static absl::StatusOr<CompileResult> Try(InflightCompilation& inflight, const Attempt& attempt);
  // The first caller gives the compilation its result. If a worker `compiled` it, hooks_.completed
  // is called in any case.
  void Complete(InflightCompilation& inflight, absl::StatusOr<CompileResult> result, bool compiled);
  void LetGo();
  static absl::Status Stopping();
  void ReturnToCompile(const std::shared_ptr<InflightCompilation>& inflight);
  absl::StatusOr<CompileResult> CompileOnce(size_t index, const CompileJob& job,
                                            const ProgressFunction& progress);
  // The number of threads for a compilation that begins now: the running ones share them evenly.
  unsigned ThreadsOfOne() const;
  absl::StatusOr<WorkerProcess*> ReadyWorker(size_t index);
  void Leave(const InflightCompilation* inflight, const std::string& tenant);
  // Callers hold mutex_. These are positions in the queue of compilations; a request to another
  // server has none.
  void TellPositions();

  const QueueOptions options_;
  const QueueHooks hooks_;

  mutable std::mutex mutex_;
  std::condition_variable idle_;
  std::condition_variable watch_;
  Lane forward_;
  Lane compile_;
  // Both are guarded by mutex_. Each worker object is made and destroyed by its own thread only,
  // with mutex_ held.
  std::map<Digest, Waiting> inflight_;
  std::vector<std::unique_ptr<WorkerProcess>> workers_;
  bool stopping_ = false;
  // Compilations that others were asked for, each with the time by which they must have sent
  // something.
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::shared_ptr<InflightCompilation>>>
      asked_;
  std::vector<Digest> arrived_;
  size_t running_ = 0;                     // threads that have a compilation; Stop() waits for them
  uint64_t request_bytes_ = 0;             // bytes of graphs, counted for each waiter
  std::map<std::string, size_t> waiters_;  // by tenant; no entry is 0
  TenantBudget budget_;

  std::atomic<size_t> compiling_{0};  // how many of the running ones are in workers of ours
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> compile_micros_{0};  // time of worker processes, including failures
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
