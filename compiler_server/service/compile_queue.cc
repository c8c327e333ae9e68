#include "compiler_server/service/compile_queue.h"

#include "base/log.h"

namespace hpu::server {
namespace {

absl::Status Stopping() {
  return Error(absl::StatusCode::kUnavailable, "the compile server is stopping");
}

// Messages quote the graph, which has up to 64 MiB; they are remembered, logged and sent.
constexpr size_t kMaxMessageBytes = 4096;

absl::Status Shortened(const absl::Status& failure) {
  const absl::string_view message = failure.message();
  if (message.size() <= kMaxMessageBytes) return failure;
  size_t end = kMaxMessageBytes;
  // Not within a UTF-8 sequence: protobuf refuses half a character.
  while (end > 0 && (static_cast<uint8_t>(message[end]) & 0xC0) == 0x80) --end;
  return Error(failure.code(), message.substr(0, end), "... (", message.size(), " bytes)");
}

}  // namespace

CompileQueue::Seat::~Seat() {
  if (flight_ != nullptr) queue_->Leave(flight_->job().key, flight_.get());
}

CompileQueue::CompileQueue(QueueOptions options, QueueHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)) {
  workers_.resize(static_cast<size_t>(options_.workers));
  for (size_t i = 0; i < workers_.size(); ++i) {
    threads_.emplace_back([this, i] { CompileThread(i); });
  }
  for (int i = 0; hooks_.forward && i < options_.forwards; ++i) {
    threads_.emplace_back([this] { ForwardThread(); });
  }
}

CompileQueue::~CompileQueue() { Stop(std::chrono::milliseconds(0)); }

absl::StatusOr<CompileQueue::Seat> CompileQueue::Join(CompileJob job) {
  const Digest key = job.key;
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopping_) return Stopping();
  if (const auto found = flights_.find(key); found != flights_.end()) {
    ++found->second.seats;
    ++coalesced_;
    return Seat(this, found->second.flight, /*leader=*/false);
  }
  const size_t waiting_flights = forward_.keys.size() + compile_.keys.size();
  if (waiting_flights >= options_.max_waiting) {
    return Error(absl::StatusCode::kResourceExhausted, waiting_flights,
                 " compilations are waiting; try again later");
  }
  Waiting& waiting = flights_[key];
  waiting.flight = std::make_shared<Flight>(std::move(job));
  waiting.seats = 1;
  Lane& lane = hooks_.forward ? forward_ : compile_;
  lane.keys.push_back(key);
  TellPositions();
  lane.work.notify_one();
  return Seat(this, waiting.flight, /*leader=*/true);
}

void CompileQueue::Leave(const Digest& key, const Flight* flight) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = flights_.find(key);
  if (found == flights_.end() || found->second.flight.get() != flight) return;  // finished
  if (--found->second.seats > 0 || found->second.started) return;
  ++abandoned_;
  std::erase(forward_.keys, key);
  std::erase(compile_.keys, key);
  flights_.erase(found);
  TellPositions();
}

void CompileQueue::Stop(std::chrono::milliseconds grace) {
  std::vector<std::shared_ptr<Flight>> refused;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    stopping_ = true;
    for (Lane* lane : {&forward_, &compile_}) {
      for (const Digest& key : lane->keys) {
        refused.push_back(flights_.at(key).flight);
        flights_.erase(key);
      }
      lane->keys.clear();
      lane->work.notify_all();
    }
  }
  for (const std::shared_ptr<Flight>& flight : refused) flight->Finish(Stopping());
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
  return flights_.size();
}

void CompileQueue::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["compile.compiled"] += compiled_;
  counters["compile.micros"] += compile_micros_;
  counters["compile.coalesced"] += coalesced_;
  counters["compile.failed"] += failed_;
  counters["compile.worker_losses"] += worker_losses_;
  counters["compile.abandoned"] += abandoned_;
  std::lock_guard<std::mutex> lock(mutex_);
  counters["compile.waiting"] += forward_.keys.size() + compile_.keys.size();
  counters["compile.running"] += running_;
}

void CompileQueue::CompileThread(size_t index) {
  // Warm before the first request; a failure shows again, and is told, when work comes.
  if (const auto worker = ReadyWorker(index); !worker.ok()) {
    HPU_LOG(kError, "no compile worker error=" << ToText(worker.status()));
  }
  while (const std::shared_ptr<Flight> flight = NextFlight(compile_)) {
    absl::StatusOr<Landing> result = Try(*flight, [&](const ProgressFunction& progress) {
      return CompileOnce(index, flight->job(), progress);
    });
    --compiling_;
    if (hooks_.landed) hooks_.landed(flight->job().key);
    Land(*flight, std::move(result));
    // A lost worker is replaced at once, so that the next request finds a warm one.
    ReadyWorker(index).status().IgnoreError();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  workers_[index].reset();
}

void CompileQueue::ForwardThread() {
  while (const std::shared_ptr<Flight> flight = NextFlight(forward_)) {
    absl::StatusOr<Landing> result = Try(*flight, [&](const ProgressFunction& progress) {
      return hooks_.forward(flight->job(), progress);
    });
    if (absl::IsUnavailable(result.status())) {
      ReturnToCompile(flight);
    } else {
      Land(*flight, std::move(result));
    }
  }
}

std::shared_ptr<Flight> CompileQueue::NextFlight(Lane& lane) {
  std::unique_lock<std::mutex> lock(mutex_);
  lane.work.wait(lock, [&] { return stopping_ || !lane.keys.empty(); });
  if (stopping_) return nullptr;
  Waiting& next = flights_.at(lane.keys.front());
  lane.keys.pop_front();
  next.started = true;
  ++running_;
  if (&lane == &compile_) ++compiling_;
  TellPositions();
  return next.flight;
}

unsigned CompileQueue::ThreadsOfOne() const {
  const size_t compiling = std::max<size_t>(1, compiling_);
  return std::max<unsigned>(1, options_.threads / static_cast<unsigned>(compiling));
}

absl::StatusOr<Landing> CompileQueue::Try(Flight& flight, const Attempt& attempt) {
  flight.Start();
  // Whoever waits must be answered whatever happens here, allocation failures included.
  try {
    return attempt([&](const CompileProgress& now) { flight.SetProgress(now); });
  } catch (const std::exception& error) {
    return Internal("the server failed while compiling: ", error.what());
  }
}

void CompileQueue::ReturnToCompile(const std::shared_ptr<Flight>& flight) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--running_ == 0) idle_.notify_all();
    if (!stopping_) {
      Waiting& waiting = flights_.at(flight->job().key);
      if (waiting.seats == 0) {  // everybody has left meanwhile
        ++abandoned_;
        flights_.erase(flight->job().key);
        return;
      }
      waiting.started = false;
      flight->WaitAgain();
      compile_.keys.push_back(flight->job().key);
      TellPositions();
      compile_.work.notify_one();
      return;
    }
    flights_.erase(flight->job().key);
  }
  flight->Finish(Stopping());
}

void CompileQueue::Land(Flight& flight, absl::StatusOr<Landing> result) {
  const CompileJob& job = flight.job();
  if (!result.ok()) {
    ++failed_;
    result = Shortened(result.status());
    hooks_.fail(job, result.status());
  }
  {
    // Filed or remembered by now: a request that comes after this finds it there.
    std::lock_guard<std::mutex> lock(mutex_);
    flights_.erase(job.key);
    if (--running_ == 0) idle_.notify_all();
  }
  flight.Finish(std::move(result));
}

absl::StatusOr<Landing> CompileQueue::CompileOnce(size_t index, const CompileJob& job,
                                                  const ProgressFunction& progress) {
  if (!job.skip_cache_lookup) {
    absl::StatusOr<store::Entry> known = hooks_.look_up(job.key);
    if (known.ok()) return Landing{*std::move(known), /*from_store=*/true};
  }
  ASSIGN_OR_RETURN(WorkerProcess * worker, ReadyWorker(index));
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<CompileOutput> output =
      worker->Compile(job.input, ThreadsOfOne(), progress, options_.time_limit);
  const auto duration = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - begin);
  compile_micros_ += static_cast<uint64_t>(duration.count());
  if (worker->dead()) {
    ++worker_losses_;
    HPU_LOG(kError, "compile worker lost pid=" << worker->pid() << " key=" << ToHex(job.key)
                                               << " error=" << ToText(output.status()));
  }
  RETURN_IF_ERROR(output.status());
  ++compiled_;
  ASSIGN_OR_RETURN(store::Entry entry, hooks_.publish(job, *std::move(output), duration));
  return Landing{std::move(entry), /*from_store=*/false};
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
  for (const Digest& key : compile_.keys) flights_.at(key).flight->SetPosition(position++);
}

}  // namespace hpu::server
