// One compilation of one content key, under way or waiting for a worker, and everyone who waits for
// it. The work belongs to the queue's threads, not to the request that began it, so any request may
// leave.
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

// What a request hands in.
struct CompileJob {
  Digest key{};  // ContentKey of `content`
  Digest
      inflight_key{};  // what requests join that are for one compilation: TenantPrograms::ScopeOf
  store::Content content;
  CompileInput input;
  bool skip_cache_lookup = false;               // compile anew and replace what is stored
  std::optional<store::FrontEndKey> front_end;  // of the request that began it
  Caller caller;                                // of the request that began it
  bool warm_up = false;                         // nobody waits for it
};

// How a flight ends well.
struct CompileResult {
  store::Entry entry;
  bool from_store = false;  // nothing was compiled: another flight or another server had it
};

class InflightCompilation {
 public:
  struct View {
    uint64_t version = 0;  // grows with every change
    bool started = false;
    uint32_t position = 0;  // in the queue, while not started; 0 = next
    CompileProgress progress;
    std::optional<absl::StatusOr<CompileResult>> result;  // set at the end
  };

  explicit InflightCompilation(CompileJob job) : job_(std::move(job)) {}

  const CompileJob& job() const { return job_; }

  // The state as soon as it is newer than `seen`, or as it is after `timeout`.
  View Wait(uint64_t seen, std::chrono::milliseconds timeout);

  void SetPosition(uint32_t position);
  void Start();
  // Waits again: another server was asked in vain, the next to try is a worker of ours.
  void WaitAgain();
  void SetProgress(const CompileProgress& progress);
  // Once; wakes everybody.
  void Finish(absl::StatusOr<CompileResult> result);

 private:
  const CompileJob job_;
  std::mutex mutex_;
  std::condition_variable changed_;
  View view_;  // guarded by mutex_
};

}  // namespace hpu::server
