// RedisRecipeStore is a layer that several compile servers share: a Redis engine, alone, with
// replicas, as a cluster or behind sentinels (redis_options.h says how it is named, and that there
// is no TLS).
//
// It keeps these keys (<p> is the prefix, names are hexadecimal; see also docs/formats.md):
//   <p>:b:<digest>  string      a blob's bytes
//   <p>:m:<key>     string      manifest: SignedRecord (signed_record.h)
//   <p>:a:<id>      string      alias: SignedRecord
//   <p>:r:<key>     sorted set  ids of the entry's newest 256 aliases, by creation time
//   <p>:i           sorted set  keys of the newest 100,000 manifests, by creation time
//   <p>:q:<key>     string      a manifest out of service: reason, line feed, SignedRecord
//   <p>:x           sorted set  keys of the newest 1,000 of those, by their time
// `i`, `q` and `x` are for people who inspect the engine.
//
// Each command touches one key, so a cluster needs no hash tags. The manifest makes an entry. It is
// written after the blobs, and it counts only with all its blobs in their sizes. The engine may
// evict any key: a lost blob or manifest is a miss, a lost `i` hides entries from people, and after
// a lost `r` an alias is checked for its program when it is read.
//
// The engine is not trusted: its answers are bounded, checked for their form, and given up when
// they are late. Digests and signatures are not checked here; put VerifyingRecipeStore on top.
// While the engine is full or read-only, reading goes on and Put returns UNAVAILABLE.
#pragma once

#include <atomic>
#include <memory>

#include "recipe_store/engine_counters.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/redis/redis_client.h"
#include "recipe_store/redis/redis_keys.h"

namespace hpu::store {

// Thread-safe. UNAVAILABLE from any call: the engine is lost, late or left alone. DATA_LOSS: it
// answers something that was not put there.
class RedisRecipeStore : public RecipeStore {
 public:
  // An entry keeps at most so many aliases.
  static constexpr size_t kMaxAliases = 256;
  static constexpr size_t kMaxListed = 100'000;
  static constexpr size_t kMaxQuarantined = 1000;

  explicit RedisRecipeStore(std::shared_ptr<RedisClient> client) : client_(std::move(client)) {}

  // Also returns NOT_FOUND if a part of the entry was evicted.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  // RESOURCE_EXHAUSTED: the entry is larger than RedisOptions::max_entry_bytes. A full engine is
  // UNAVAILABLE.
  absl::Status Put(const Entry& entry) override;
  // Also deletes the blobs of the entry that do not have their digest, so that the next Put that
  // needs them writes them again.
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // redis_recipe_store.cc
  absl::StatusOr<Entry> ReadEntry(const Digest& key, Purpose purpose);
  absl::StatusOr<std::map<Digest, Blob>> ReadBlobs(const Manifest& manifest,
                                                   const std::vector<BlobRef>& refs,
                                                   Deadline deadline);
  absl::Status WriteEntry(const Entry& entry);
  absl::StatusOr<std::vector<size_t>> MissingBlobs(const std::vector<BlobRef>& refs,
                                                   Deadline deadline);
  absl::Status WriteBlobs(const Entry& entry, const std::vector<BlobRef>& refs, Deadline deadline);
  std::string key(RedisKind kind) const { return RedisKey(client_->options().prefix, kind); }
  std::string key(RedisKind kind, const Digest& name) const {
    return RedisKey(client_->options().prefix, kind, name);
  }
  // Returns the time to live of the parts that a manifest needs. They outlive the manifest, so that
  // it is not found without them.
  std::chrono::milliseconds part_ttl() const;

  // redis_aliases.cc
  absl::StatusOr<AliasRecord> ReadAlias(const Digest& id);
  absl::Status WriteAlias(const AliasRecord& alias);
  absl::Status DropAliases(const std::vector<Digest>& ids, Deadline deadline);
  absl::Status DropAliasesOf(const Digest& key, Deadline deadline);
  absl::StatusOr<std::vector<Digest>> AliasIdsOf(const Digest& key, Deadline deadline);
  absl::StatusOr<bool> HasManifest(const Digest& key, Deadline deadline);

  // redis_quarantine.cc
  absl::Status TakeOutOfService(const Digest& key, Deadline deadline, Bytes* record);
  absl::Status KeepAside(const Digest& key, const std::string& reason, const Bytes& record,
                         Deadline deadline);
  absl::Status DropBadBlobs(const Bytes& record, Deadline deadline);

  const std::shared_ptr<RedisClient> client_;  // shared with the lease keeper
  EngineCounters counters_;
  std::atomic<uint64_t> quarantined_{0};
};

}  // namespace hpu::store
