// Other servers that this one asks before it compiles: a user's daemon asks those of the cluster.
// Programs from there are verified like a client would verify them, and a fault there costs no more
// than a delay. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <string>

#include "compile_client/rpc_client.h"
#include "compiler_server/service/queue/inflight_compilation.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::server {

struct UpstreamOptions {
  std::vector<client::Endpoint> endpoints;  // empty: no server is asked
  client::Access access;
  std::chrono::milliseconds fetch_timeout{5000};
  // How long they may be silent before a request goes on without them; 0 = no limit.
  std::chrono::milliseconds hedge_after{500};
};

class Upstream {
 public:
  // `trusted` must live longer. Only programs of this compiler are accepted, because those of
  // another one would be stored under keys that nobody here asks for.
  Upstream(UpstreamOptions options, std::string build_id, const store::TrustedKeys* trusted);

  // Returns NOT_FOUND for a miss there, and UNAVAILABLE if there is no usable answer; the reason is
  // logged. Simultaneous calls for one key become one request.
  absl::StatusOr<client::Fetched> Fetch(const Digest& front_end_key);

  // Lets a server upstream find or compile the program. Returns UNAVAILABLE as Fetch does. Every
  // other error is the verdict of a compiler like ours.
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, std::chrono::milliseconds timeout,
                                        const ProgressFunction& progress);

  // The program, if it is stored there. Returns the errors of Fetch.
  absl::StatusOr<store::Entry> FetchContent(const CompileJob& job);

  // The programs that this server may see there. Returns UNAVAILABLE as Fetch does.
  absl::StatusOr<client::ListPage> List(const client::ListQuery& query);

  // Ends the calls in progress; later ones do not begin.
  void Stop() { stopping_ = true; }

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  absl::StatusOr<client::Compiled> Ask(const CompileJob& job, bool frozen,
                                       std::chrono::milliseconds timeout,
                                       const ProgressFunction& progress);
  using FetchResult = absl::StatusOr<client::Fetched>;

  FetchResult FetchOnce(const Digest& front_end_key);
  absl::Status Interrupted() const;
  // Replaces an error that says nothing about the graph by UNAVAILABLE.
  absl::Status Unusable(const char* call, const absl::Status& status);

  const UpstreamOptions options_;
  const std::string build_id_;
  client::RpcClient client_;
  std::mutex mutex_;
  // those in progress; guarded by mutex_.
  std::map<Digest, std::shared_future<FetchResult>> fetches_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failing_{false};  // the state after the last call, logged when it changes
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> failures_{0};
};

}  // namespace hpu::server
