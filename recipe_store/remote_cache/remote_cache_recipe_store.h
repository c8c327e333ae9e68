// RemoteCacheRecipeStore is a layer that several compile servers share: a Remote Execution API
// cache (Buildbarn, bazel-remote, BuildBuddy, NativeLink, ...). remote_cache_options.h says how it
// is named, and remote_cache_actions.h what programs and aliases are filed under.
//
// The server is not trusted: its answers are bounded, and a blob without its digest is refused.
// Signatures are not checked here; put VerifyingRecipeStore on top. The server may forget anything:
// a result whose blobs are not there is a miss.
//
// Such a cache cannot do everything:
//   deleting   A result without a record replaces what is to go. In case the server did not take
//              that, this process does not ask for it again for a while. Nothing is kept for
//              inspection.
//   leases     Another engine must keep them (factory.h).
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "recipe_store/engine_counters.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/remote_cache/remote_cache_client.h"

namespace hpu::store {

// Thread-safe. UNAVAILABLE from any call: the server is lost, late or left alone. DATA_LOSS: it
// answers something that was not put there.
class RemoteCacheRecipeStore : public RecipeStore {
 public:
  explicit RemoteCacheRecipeStore(std::unique_ptr<RemoteCacheClient> client)
      : client_(std::move(client)) {}

  // Also returns NOT_FOUND if a part of the entry is gone.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  // RESOURCE_EXHAUSTED: the entry is larger than RemoteCacheOptions::max_entry_bytes, or has more
  // than kMaxResultBlobs blobs. A server that takes nothing from us is UNAVAILABLE.
  absl::Status Put(const Entry& entry) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  absl::StatusOr<Bytes> ReadRecord(const RemoteAction& action, RemoteCacheCall& call);
  absl::StatusOr<Entry> ReadEntry(const Digest& key, Purpose purpose, RemoteCacheCall& call);
  absl::StatusOr<std::map<Digest, Blob>> ReadBlobs(const Manifest& manifest,
                                                   const std::vector<BlobRef>& refs, uint64_t bytes,
                                                   RemoteCacheCall& call);
  absl::StatusOr<AliasRecord> ReadAlias(const Digest& id, RemoteCacheCall& call);
  // Writes the blobs that the result names, then the result.
  absl::Status WriteResult(const RemoteAction& action, const Bytes& record,
                           const std::map<Digest, const Bytes*>& blobs, RemoteCacheCall& call);
  // NOT_FOUND: the program is not there.
  absl::Status HasProgram(const Digest& key, RemoteCacheCall& call);
  absl::Status Withdraw(const RemoteAction& action);

  // An avoided action is one that the server is not asked for.
  bool Avoids(const RemoteAction& action);
  void Avoid(const RemoteAction& action);
  void Forgive(const RemoteAction& action);
  void NoteDamaged(const RemoteCacheCall& call);
  bool IsDamaged(const Digest& blob);

  const std::unique_ptr<RemoteCacheClient> client_;

  std::mutex mutex_;
  // mutex_ guards both. avoided_ says until when an action is avoided. damaged_ holds the blobs
  // that are sent again although the server has them. The size of both is bounded.
  std::map<Digest, Time> avoided_;
  std::set<Digest> damaged_;

  EngineCounters counters_;
  std::atomic<uint64_t> avoided_reads_{0};
  std::atomic<uint64_t> withdrawn_{0};
};

}  // namespace hpu::store
