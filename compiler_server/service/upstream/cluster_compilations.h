// Allows one compilation per key among the servers that share a store: the server that takes the
// lease of a key compiles it, and the others wait until the program is in the store. A lease that
// is lost, or cannot be had, costs a second compilation and nothing else (recipe_store/lease.h).
// Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "compiler_server/service/queue/inflight_compilation.h"
#include "recipe_store/lease.h"

namespace hpu::server {

class ClusterCompilations {
 public:
  using LookUp = std::function<absl::StatusOr<store::Entry>()>;

  // How long the others wait for a server that has died.
  static constexpr std::chrono::milliseconds kLeaseTime{10'000};

  // `keeper` must live longer. `holder` is this server's name for people who look at leases.
  ClusterCompilations(store::LeaseKeeper* keeper, std::string holder);
  // Gives all leases back.
  ~ClusterCompilations();

  // UNAVAILABLE means that the caller compiles the key here and then calls Completed. Otherwise
  // returns the program that another server made, as `look_up` finds it. Returns within `patience`
  // in any case, and sends heartbeats through `progress`.
  absl::StatusOr<CompileResult> Await(const Digest& key, const LookUp& look_up,
                                      std::chrono::milliseconds patience,
                                      const ProgressFunction& progress);

  // Frees the key: its compilation ended here, and its result is where others look.
  void Completed(const Digest& key);

  // Ends the waiting.
  void Stop();

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  void RenewLoop();
  // True if the lease is ours, or if nobody can say whose it is.
  bool TryTake(const Digest& key, std::string* holder);

  store::LeaseKeeper* const keeper_;
  const std::string holder_;

  std::mutex mutex_;
  std::condition_variable stopped_;
  std::map<Digest, store::Lease> held_;  // guarded by mutex_
  bool stopping_ = false;                // guarded by mutex_

  std::atomic<uint64_t> waited_{0};
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> lost_{0};
  std::atomic<uint64_t> without_{0};
  std::thread thread_;
};

}  // namespace hpu::server
