// One compilation of one content key, running or waiting for a worker, together with everyone who
// waits for it. The work belongs to the threads of the queue and not to the request that began it,
// so any request may leave.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "base/hash.h"
#include "compiler_server/service/callers/caller.h"
#include "compiler_server/service/workers/compile_backend.h"
#include "recipe_store/recipe_store.h"

namespace hpu::server {

// The work that a request asks the queue to do.
struct CompileJob {
  Digest key{};  // ContentKey of `content`
  // TenantPrograms::ScopeOf the key. Requests with the same one share one compilation.
  Digest inflight_key{};
  store::Content content;
  CompileInput input;
  bool skip_cache_lookup = false;               // compile again and replace what is stored
  std::optional<store::FrontEndKey> front_end;  // the key of the request that began it
  Caller caller;                                // the caller of the request that began it
  bool warm_up = false;                         // nobody waits for it
};

// The result of a compilation that succeeded.
struct CompileResult {
  store::Entry entry;
  bool from_store = false;  // nothing was compiled here: another request or another server had it
};

class InflightCompilation {
 public:
  struct View {
    uint64_t version = 0;  // grows with every change
    bool started = false;
    uint32_t position = 0;  // in the queue, while it has not started; 0 = next
    CompileProgress progress;
    std::optional<absl::StatusOr<CompileResult>> result;  // set at the end
  };

  explicit InflightCompilation(CompileJob job) : job_(std::move(job)) {}

  const CompileJob& job() const { return job_; }

  // Returns the state as soon as it is newer than `seen`, and the unchanged state after `timeout`.
  View Wait(uint64_t seen, std::chrono::milliseconds timeout);

  void SetPosition(uint32_t position);
  void Start();
  // Goes back to waiting: another server was asked and did not give the program, so a worker of
  // ours is the next to try.
  void WaitAgain();
  void SetProgress(const CompileProgress& progress);
  // Is called once, and wakes everybody.
  void Finish(absl::StatusOr<CompileResult> result);

 private:
  const CompileJob job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  View view_;  // guarded by mutex_
};

}  // namespace hpu::server
