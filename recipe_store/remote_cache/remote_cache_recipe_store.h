// The layer that several compile servers share: a Remote Execution API cache (Buildbarn,
// bazel-remote, BuildBuddy, NativeLink, ...), as remote_cache_options.h names it. What it is filed
// under there is in remote_cache_actions.h.
//
// The server is not trusted: what it says is bounded, and each blob has its digest or is refused.
// Signatures are not looked at here: put VerifyingRecipeStore on top. It may forget what it likes:
// a result whose blobs are not there is a miss.
//
// What such a cache cannot do:
//   listing    List and AliasesOf answer nothing
//   deleting   what goes is replaced by a result without a record, and not asked for again by this
//              process for a while, in case that was not taken; nothing is kept for inspection
//   leases     not from this engine (factory.h)
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "recipe_store/recipe_store.h"
#include "recipe_store/remote_cache/remote_cache_client.h"

namespace hpu::store {

class RemoteCacheRecipeStore : public RecipeStore {
 public:
  explicit RemoteCacheRecipeStore(std::unique_ptr<RemoteCacheClient> client)
      : client_(std::move(client)) {}

  // NOT_FOUND also where a part is gone. DATA_LOSS: not what was put there.
  absl::StatusOr<Entry> Get(const Digest& key) override;
  // RESOURCE_EXHAUSTED: above RemoteCacheOptions::max_entry_bytes, or more than kMaxResultBlobs
  // recipes. UNAVAILABLE: also where nothing can be put.
  absl::Status Put(const Entry& entry) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest&) override {
    return std::vector<Alias>();
  }
  absl::StatusOr<std::vector<Manifest>> List(size_t, const std::optional<ListPosition>&) override {
    return std::vector<Manifest>();
  }
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::Status Flush() override { return absl::OkStatus(); }
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  absl::StatusOr<Bytes> ReadRecord(const RemoteAction& action, RemoteCacheCall& call);
  absl::StatusOr<Entry> ReadEntry(const Digest& key, RemoteCacheCall& call);
  absl::StatusOr<std::vector<Blob>> ReadBlobs(const Manifest& manifest, RemoteCacheCall& call);
  absl::StatusOr<AliasRecord> ReadAlias(const Digest& id, RemoteCacheCall& call);
  // The result, after all that it names.
  absl::Status WriteResult(const RemoteAction& action, const Bytes& record,
                           const std::map<Digest, const Bytes*>& blobs, RemoteCacheCall& call);
  absl::Status HasProgram(const Digest& key, RemoteCacheCall& call);
  absl::Status Withdraw(const RemoteAction& action);

  // Actions that are not asked for.
  bool Avoids(const RemoteAction& action);
  void Avoid(const RemoteAction& action);
  void Forgive(const RemoteAction& action);
  void NoteDamaged(const RemoteCacheCall& call);
  bool IsDamaged(const Digest& blob);
  void Count(const absl::Status& status, std::atomic<uint64_t>& done,
             std::atomic<uint64_t>& missed);

  const std::unique_ptr<RemoteCacheClient> client_;

  std::mutex mutex_;
  // Guarded by mutex_, bounded.
  std::map<Digest, Time> avoided_;  // actions, and until when
  std::set<Digest> damaged_;        // blobs that are sent again although the server has them

  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> puts_{0};
  std::atomic<uint64_t> alias_hits_{0};
  std::atomic<uint64_t> alias_misses_{0};
  std::atomic<uint64_t> alias_puts_{0};
  std::atomic<uint64_t> errors_{0};
  std::atomic<uint64_t> incomplete_{0};  // of the misses: a result without all that it names
  std::atomic<uint64_t> avoided_reads_{0};
  std::atomic<uint64_t> blobs_written_{0};
  std::atomic<uint64_t> blobs_known_{0};  // that did not need to be written
  std::atomic<uint64_t> withdrawn_{0};
};

}  // namespace hpu::store
