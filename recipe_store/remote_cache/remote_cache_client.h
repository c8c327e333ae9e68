// RemoteCacheClient calls a Remote Execution API cache. It makes the channel, asks for the server's
// capabilities, gives up in time, and leaves a failed server alone for a while.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "recipe_store/circuit_breaker.h"
#include "recipe_store/remote_cache/remote_cache_call.h"
#include "recipe_store/remote_cache/remote_cache_options.h"

namespace hpu::store {

// Thread-safe.
class RemoteCacheClient {
 public:
  // Returns INVALID_ARGUMENT for options that cannot work. It connects to no server yet, because a
  // server that is down now may be up later.
  static absl::StatusOr<std::unique_ptr<RemoteCacheClient>> Make(const RemoteCacheOptions& options);

  const RemoteCacheOptions& options() const { return options_; }
  // Returns how much later a call may end that moves so many bytes.
  std::chrono::milliseconds TimeFor(uint64_t bytes) const;

  using Work = std::function<absl::Status(RemoteCacheCall& call)>;
  // Runs `work`, which may move so many bytes, at the server, and returns its status. UNAVAILABLE
  // without asking the server: it is left alone, or it takes nothing and `writes` is true.
  absl::Status Run(bool writes, uint64_t bytes, const Work& work);

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  using Session = std::shared_ptr<RemoteCacheSession>;

  RemoteCacheClient(RemoteCacheOptions options, RemoteCacheAddress address);
  absl::StatusOr<Session> CurrentSession(RemoteCacheCall::Deadline deadline);
  absl::StatusOr<Session> OpenSession(const Session& old, RemoteCacheCall::Deadline deadline);
  absl::Status TakeCapabilities(const reapi::ServerCapabilities& reply,
                                RemoteCacheSession& session);
  // Makes the session's channel, or takes the old one's if what it was made with still holds.
  absl::Status Connect(const Session& old, RemoteCacheSession& session) const;
  void NoteReadOnly(const Session& session);
  void NoteSuccess();
  void NoteFailure(const absl::Status& status, bool late);

  const RemoteCacheOptions options_;
  const RemoteCacheAddress address_;

  // No thread holds mutex_ while it waits for the server.
  std::mutex mutex_;
  // The fields below are guarded by mutex_.
  CircuitBreaker breaker_;
  Session session_;  // null before the first question, and after a failure
  bool said_read_only_ = false;

  RemoteCacheTraffic traffic_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> timeouts_{0};
  std::atomic<uint64_t> open_circuit_{0};
  std::atomic<uint64_t> refused_writes_{0};
};

}  // namespace hpu::store
