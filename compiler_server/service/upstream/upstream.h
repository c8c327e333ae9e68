// Other servers that this one asks before it compiles: a user's daemon asks those of the cluster.
// What comes from there is verified as it would be by a client, and nothing that goes wrong there
// is more than a delay. Thread-safe.
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
  std::vector<client::Endpoint> endpoints;  // empty: none is asked
  client::Access access;
  std::chrono::milliseconds fetch_timeout{5000};
  // How long they may say nothing before a request goes on without them; 0: as long as they may.
  std::chrono::milliseconds hedge_after{500};
};

class Upstream {
 public:
  // `trusted` must live longer. Only programs of this compiler are taken: those of another one
  // would be filed under keys that nobody here asks for.
  Upstream(UpstreamOptions options, std::string build_id, const store::TrustedKeys* trusted);

  // NOT_FOUND: a miss there. UNAVAILABLE: no answer that can be used; the reason is logged. Calls
  // for one key at one time are one request.
  absl::StatusOr<client::Fetched> Fetch(const Digest& front_end_key);

  // Has the program compiled, or found, there. UNAVAILABLE: as Fetch. All others are the verdict of
  // a compiler like ours.
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, std::chrono::milliseconds timeout,
                                        const ProgressFunction& progress);

  // The program, if it is stored there. Errors as Fetch.
  absl::StatusOr<store::Entry> FetchContent(const CompileJob& job);

  // What its caller there sees. UNAVAILABLE: as Fetch.
  absl::StatusOr<client::ListPage> List(const client::ListQuery& query);

  // Calls under way end, later ones do not begin.
  void Stop() { stopping_ = true; }

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  absl::StatusOr<client::Compiled> Ask(const CompileJob& job, bool frozen,
                                       std::chrono::milliseconds timeout,
                                       const ProgressFunction& progress);
  using FetchResult = absl::StatusOr<client::Fetched>;

  FetchResult FetchOnce(const Digest& front_end_key);
  absl::Status Interrupted() const;
  // UNAVAILABLE in place of what tells nothing about the graph.
  absl::Status Unusable(const char* call, const absl::Status& status);

  const UpstreamOptions options_;
  const std::string build_id_;
  client::RpcClient client_;
  std::mutex mutex_;
  std::map<Digest, std::shared_future<FetchResult>> fetches_;  // guarded by mutex_; under way
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failing_{false};  // as of the last call: logged when it changes
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> compiled_{0};
  std::atomic<uint64_t> failures_{0};
};

}  // namespace hpu::server
