#include "compiler_server/service/queue/compile_queue.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "compile_client/request_id.h"

namespace hpu::server {
namespace {

// While it exists, the log lines and the calls of a thread for a compilation carry the id of the
// request that began it.
class RequestNames {
 public:
  explicit RequestNames(const CompileJob& job)
      : log_("request=" + job.caller.request_id), calls_(job.caller.request_id) {}

 private:
  const LogScope log_;
  const client::RequestScope calls_;
};

// the payload is milliseconds as decimal text.
constexpr char kRetryAfterPayload[] = "hpu.server.RetryAfter";
constexpr std::chrono::milliseconds kShortestRetry{500};
constexpr std::chrono::milliseconds kLongestRetry{60'000};

absl::Status TurnedAway(const std::string& why, std::chrono::milliseconds retry_after) {
  retry_after = std::clamp(retry_after, kShortestRetry, kLongestRetry);
  absl::Status status = Error(absl::StatusCode::kResourceExhausted, why, "; ask again in ",
                              retry_after.count(), " ms");
  status.SetPayload(kRetryAfterPayload, absl::Cord(std::to_string(retry_after.count())));
  return status;
}

// Messages quote the graph, which may have 64 MiB, and they are remembered, logged and sent.
constexpr size_t kMaxMessageBytes = 4096;

absl::Status Shortened(const absl::Status& failure) {
  const absl::string_view message = failure.message();
  if (message.size() <= kMaxMessageBytes) return failure;
  size_t end = kMaxMessageBytes;
  // The cut must not be within a UTF-8 sequence, because protobuf refuses half a character.
  while (end > 0 && (static_cast<uint8_t>(message[end]) & 0xC0) == 0x80) --end;
  return Error(failure.code(), message.substr(0, end), "... (", message.size(), " bytes)");
}

}  // namespace

std::optional<std::chrono::milliseconds> RetryHint(const absl::Status& status) {
  const absl::optional<absl::Cord> hint = status.GetPayload(kRetryAfterPayload);
  if (!hint.has_value()) return std::nullopt;
  return std::chrono::milliseconds(std::stoll(std::string(*hint)));
}

CompileQueue::Waiter::~Waiter() {
  if (inflight_ != nullptr) queue_->Leave(inflight_.get(), tenant_);
}

CompileQueue::CompileQueue(QueueOptions options, QueueHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)), budget_(options_.tenant_budget) {
  workers_.resize(static_cast<size_t>(options_.workers));
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] { CompileThread(i); });
  }
  for (int i = 0; hooks_.forward && i < options_.forwards; ++i) {
    threads_.emplace_back([this] { ForwardThread(); });
  }
  threads_.emplace_back([this] { WatchThread(); });
}

CompileQueue::~CompileQueue() { Stop(std::chrono::milliseconds(0)); }

absl::StatusOr<CompileQueue::Waiter> CompileQueue::Join(CompileJob job) {
  const Digest key = job.inflight_key;
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return Stopping();
  const auto found = inflight_.find(key);
  absl::Status admitted = AdmitWaiter(job);
  if (admitted.ok() && found == inflight_.end()) admitted = AdmitCompilation(job);
  if (!admitted.ok()) {
    ++turned_away_;
    return admitted;
  }
  if (found != inflight_.end()) {
    ++coalesced_;
    if (!job.warm_up) {
      found->second.warm_up = false;
      forward_.keys.Promote(key);
      compile_.keys.Promote(key);
      TellPositions();
    }
    Waiting& joined = found->second;
    // The waiters for which it was hedged have left, so its compilation here was given up.
    if (joined.hedged && !joined.to_compile && !joined.compiling) Wait(compile_, joined);
    return AddWaiter(joined, job, /*leader=*/false);
  }
  Waiting& waiting = inflight_[key];
  waiting.warm_up = job.warm_up;
  waiting.inflight = std::make_shared<InflightCompilation>(std::move(job));
  Wait(hooks_.forward ? forward_ : compile_, waiting);
  return AddWaiter(waiting, waiting.inflight->job(), /*leader=*/true);
}

CompileQueue::Waiter CompileQueue::AddWaiter(Waiting& waiting, const CompileJob& job, bool leader) {
  ++waiting.waiters;
  ++waiters_[job.caller.tenant];
  // Equal content has the same size, or nearly, so each waiter counts with the size of the first
  // one.
  request_bytes_ += waiting.inflight->job().input.graph.size();
  return Waiter(this, waiting.inflight, leader, job.caller.tenant);
}

absl::Status CompileQueue::AdmitWaiter(const CompileJob& job) const {
  const std::string& tenant = job.caller.tenant;
  const auto own = waiters_.find(tenant);
  if (own != waiters_.end() && own->second >= options_.max_waiting_of_tenant) {
    return TurnedAway(
        std::to_string(own->second) + " requests of tenant " + tenant + " are waiting",
        ExpectedWait());
  }
  // A request that is alone is admitted whatever its size, because its size has a limit of its own.
  const uint64_t bytes = job.input.graph.size();
  if (request_bytes_ == 0 || request_bytes_ + bytes <= options_.max_request_bytes) {
    return absl::OkStatus();
  }
  return TurnedAway(std::to_string(request_bytes_) + " bytes of requests are waiting",
                    ExpectedWait());
}

absl::Status CompileQueue::AdmitCompilation(const CompileJob& job) {
  const size_t waiting = forward_.keys.size() + compile_.keys.size();
  if (waiting >= options_.max_waiting) {
    return TurnedAway(std::to_string(waiting) + " compilations are waiting", ExpectedWait());
  }
  const auto owed = budget_.Wait(job.caller.tenant, std::chrono::steady_clock::now());
  if (owed.count() == 0) return absl::OkStatus();
  return TurnedAway("tenant " + job.caller.tenant + " has used its " +
                        std::to_string(options_.tenant_budget.count()) +
                        " compile seconds of an hour",
                    owed);
}

std::chrono::milliseconds CompileQueue::ExpectedWait() const {
  const uint64_t compiled = std::max<uint64_t>(1, compiled_);
  const uint64_t each = compile_micros_ / compiled / 1000;
  return std::chrono::milliseconds(each * compile_.keys.size() / workers_.size());
}

void CompileQueue::Wait(Lane& lane, Waiting& waiting) {
  const CompileJob& job = waiting.inflight->job();
  waiting.to_compile = &lane == &compile_;
  lane.keys.Push(job.inflight_key, job.caller.tenant, waiting.warm_up);
  TellPositions();
  lane.work.notify_one();
}

void CompileQueue::Leave(const InflightCompilation* inflight, const std::string& tenant) {
  const Digest& key = inflight->job().inflight_key;
  std::lock_guard<std::mutex> lock(mutex_);
  request_bytes_ -= inflight->job().input.graph.size();
  if (--waiters_.at(tenant) == 0) waiters_.erase(tenant);
  const auto found = inflight_.find(key);
  if (found == inflight_.end() || found->second.inflight.get() != inflight) return;  // finished
  if (--found->second.waiters > 0) return;
  forward_.keys.Erase(key);
  compile_.keys.Erase(key);
  found->second.to_compile = false;
  if (found->second.threads == 0) {
    ++abandoned_;
    inflight_.erase(found);
  }
  TellPositions();
}

void CompileQueue::Stop(std::chrono::milliseconds grace) {
  std::vector<std::shared_ptr<InflightCompilation>> refused;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    for (Lane* lane : {&forward_, &compile_}) {
      while (const std::optional<Digest> key = lane->keys.Pop()) {
        refused.push_back(inflight_.at(*key).inflight);
        inflight_.erase(*key);
      }
      lane->work.notify_all();
    }
    watch_.notify_all();
  }
  for (const std::shared_ptr<InflightCompilation>& inflight : refused) inflight->Finish(Stopping());
  {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait_for(lock, grace, [this] { return running_ == 0; });
    for (const std::unique_ptr<WorkerProcess>& worker : workers_) {
      if (worker != nullptr) worker->Kill();
    }
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

size_t CompileQueue::in_flight() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return inflight_.size();
}

void CompileQueue::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["compile.compiled"] += compiled_;
  counters["compile.micros"] += compile_micros_;
  counters["compile.coalesced"] += coalesced_;
  counters["compile.failed"] += failed_;
  counters["compile.worker_losses"] += worker_losses_;
  counters["compile.abandoned"] += abandoned_;
  counters["compile.turned_away"] += turned_away_;
  counters["compile.hedged"] += hedged_;
  counters["compile.overtaken"] += overtaken_;
  std::lock_guard<std::mutex> lock(mutex_);
  counters["compile.waiting"] += forward_.keys.size() + compile_.keys.size();
  // A compilation is no longer counted when its waiters hear of its result, although its thread may
  // still have something to do.
  counters["compile.running"] += static_cast<uint64_t>(
      std::count_if(inflight_.begin(), inflight_.end(),
                    [](const auto& entry) { return entry.second.threads > 0; }));
  counters["compile.request_bytes"] += request_bytes_;
}

void CompileQueue::CompileThread(size_t index) {
  // The worker starts before the first request. A failure appears, and is reported, again when
  // there is work.
  if (const auto worker = ReadyWorker(index); !worker.ok()) {
    HPU_LOG(kError, "no compile worker error=" << ToText(worker.status()));
  }
  while (const std::shared_ptr<InflightCompilation> inflight = NextCompilation(compile_)) {
    const RequestNames names(inflight->job());
    absl::StatusOr<CompileResult> result = Try(*inflight, [&](const ProgressFunction& progress) {
      return CompileOnce(index, inflight->job(), progress);
    });
    --compiling_;
    Complete(*inflight, std::move(result), /*compiled=*/true);
    LetGo();
    // A lost worker is replaced at once, so that the next request finds one that is ready.
    ReadyWorker(index).status().IgnoreError();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  workers_[index].reset();
}

void CompileQueue::ForwardThread() {
  while (const std::shared_ptr<InflightCompilation> inflight = NextCompilation(forward_)) {
    const RequestNames names(inflight->job());
    absl::StatusOr<CompileResult> result = Try(*inflight, [&](const ProgressFunction& progress) {
      return hooks_.forward(inflight->job(), [&](const CompileProgress& now) {
        NoteLife(*inflight);
        progress(now);
      });
    });
    if (absl::IsUnavailable(result.status())) {
      ReturnToCompile(inflight);
    } else {
      Complete(*inflight, std::move(result), /*compiled=*/false);
    }
    LetGo();
  }
}

std::shared_ptr<InflightCompilation> CompileQueue::NextCompilation(Lane& lane) {
  std::unique_lock<std::mutex> lock(mutex_);
  lane.work.wait(lock, [&] { return stopping_ || !lane.keys.empty(); });
  if (stopping_) return nullptr;
  Waiting& next = inflight_.at(*lane.keys.Pop());
  ++next.threads;
  ++running_;
  if (&lane == &compile_) {
    next.to_compile = false;
    next.compiling = true;
    ++compiling_;
  } else if (options_.hedge_after.count() > 0) {
    asked_.emplace_back(std::chrono::steady_clock::now() + options_.hedge_after, next.inflight);
    watch_.notify_one();
  }
  TellPositions();
  return next.inflight;
}

unsigned CompileQueue::ThreadsOfOne() const {
  const size_t compiling = std::max<size_t>(1, compiling_);
  return std::max<unsigned>(1, options_.threads / static_cast<unsigned>(compiling));
}

absl::StatusOr<CompileResult> CompileQueue::Try(InflightCompilation& inflight,
                                                const Attempt& attempt) {
  inflight.Start();
  // Whoever waits must be answered whatever happens here, including a failed allocation.
  try {
    return attempt([&](const CompileProgress& now) { inflight.SetProgress(now); });
  } catch (const std::exception& error) {
    return Internal("the server failed while compiling: ", error.what());
  }
}

CompileQueue::Waiting* CompileQueue::Find(const InflightCompilation& inflight) {
  const auto found = inflight_.find(inflight.job().inflight_key);
  return found == inflight_.end() || found->second.inflight.get() != &inflight ? nullptr
                                                                               : &found->second;
}

void CompileQueue::Complete(InflightCompilation& inflight, absl::StatusOr<CompileResult> result,
                            bool compiled) {
  const CompileJob& job = inflight.job();
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Waiting* const waiting = Find(inflight);
    first = waiting != nullptr && !std::exchange(waiting->has_result, true);
    if (first && !compiled && (waiting->to_compile || waiting->compiling)) ++overtaken_;
  }
  // Whoever takes the lease from now on sees that the compilation is complete (ReturnToCompile).
  if (compiled && hooks_.completed) hooks_.completed(job);
  if (!first) return;
  if (!result.ok()) {
    ++failed_;
    result = Shortened(result.status());
    hooks_.fail(job, result.status());
  }
  {
    // The result is stored or remembered by now, so a request that comes after this finds it there.
    std::lock_guard<std::mutex> lock(mutex_);
    forward_.keys.Erase(job.inflight_key);
    compile_.keys.Erase(job.inflight_key);
    inflight_.erase(job.inflight_key);
    TellPositions();
  }
  inflight.Finish(std::move(result));
}

void CompileQueue::LetGo() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--running_ == 0) idle_.notify_all();
}

absl::Status CompileQueue::Stopping() {
  return Error(absl::StatusCode::kUnavailable, "the compile server is stopping");
}

absl::StatusOr<CompileResult> CompileQueue::CompileOnce(size_t index, const CompileJob& job,
                                                        const ProgressFunction& progress) {
  if (!job.skip_cache_lookup) {
    absl::StatusOr<store::Entry> known = hooks_.look_up(job);
    if (known.ok()) return CompileResult{*std::move(known), /*from_store=*/true};
  }
  ASSIGN_OR_RETURN(WorkerProcess * worker, ReadyWorker(index));
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<CompileOutput> output =
      worker->Compile(job.input, ThreadsOfOne(), progress, options_.time_limit);
  const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  compile_micros_ += static_cast<uint64_t>(spent.count());
  if (hooks_.timed) hooks_.timed(output.status(), spent);
  budget_.Charge(job.caller.tenant, spent, std::chrono::steady_clock::now());
  if (worker->dead()) {
    ++worker_losses_;
    HPU_LOG(kError, "compile worker lost pid=" << worker->pid() << " key=" << ToHex(job.key)
                                               << " error=" << ToText(output.status()));
  }
  RETURN_IF_ERROR(output.status());
  ++compiled_;
  ASSIGN_OR_RETURN(store::Entry entry, hooks_.publish(job, *std::move(output), spent));
  return CompileResult{std::move(entry), /*from_store=*/false};
}

absl::StatusOr<WorkerProcess*> CompileQueue::ReadyWorker(size_t index) {
  // Only this thread replaces its worker, so reading the pointer needs no lock.
  std::unique_ptr<WorkerProcess>& worker = workers_[index];
  if (worker != nullptr && worker->CheckAlive()) return worker.get();
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerProcess> started,
                   WorkerProcess::Start(options_.worker_command, options_.worker_memory_bytes));
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return Stopping();
  worker = std::move(started);
  return worker.get();
}

void CompileQueue::TellPositions() {
  uint32_t position = 0;
  for (const Digest& key : compile_.keys.Order()) {
    inflight_.at(key).inflight->SetPosition(position++);
  }
}

}  // namespace hpu::server
