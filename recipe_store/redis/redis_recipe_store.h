// The layer that several compile servers share: a Redis engine, alone, with replicas, as a cluster
// or behind sentinels (redis_options.h says how it is named, and that there is no TLS).
//
// What it keeps (<p> is the prefix, names are hexadecimal; also docs/formats.md):
//   <p>:b:<digest>  string      a blob's bytes
//   <p>:m:<key>     string      manifest: SignedRecord (signed_record.h)
//   <p>:a:<id>      string      alias: SignedRecord
//   <p>:r:<key>     sorted set  ids of the entry's newest 256 aliases, by creation time
//   <p>:i           sorted set  keys of the newest 100,000 manifests, by creation time
//   <p>:q:<key>     string      a manifest out of service: reason, line feed, SignedRecord
//   <p>:x           sorted set  keys of the newest 1,000 of those, by their time
//
// Each command touches one key, so a cluster needs no hash tags. What makes an entry is its
// manifest, which is written after the blobs; it counts only with all its blobs in their sizes. The
// engine may evict what it likes: a lost blob or manifest is a miss, a lost index only shortens
// lists, a lost `r` leaves aliases whose program is checked for when they are read.
//
// The engine is not trusted: what it says is bounded, checked for its form, and late after a
// while. Digests and signatures are not looked at here: put VerifyingRecipeStore on top.
// While the engine is full or read-only, reading goes on and Put answers UNAVAILABLE.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "recipe_store/recipe_store.h"
#include "recipe_store/redis/redis_client.h"
#include "recipe_store/redis/redis_keys.h"

namespace hpu::store {

class RedisRecipeStore : public RecipeStore {
 public:
  static constexpr size_t kMaxAliases = 256;  // of one entry
  static constexpr size_t kMaxListed = 100'000;
  static constexpr size_t kMaxQuarantined = 1000;
  // Listing takes at most so many times as long as another call.
  static constexpr int kListTimes = 10;

  explicit RedisRecipeStore(std::shared_ptr<RedisClient> client) : client_(std::move(client)) {}

  // NOT_FOUND also where a part was evicted. DATA_LOSS: not what was put there.
  absl::StatusOr<Entry> Get(const Digest& key) override;
  // RESOURCE_EXHAUSTED: above RedisOptions::max_entry_bytes. UNAVAILABLE: full, too.
  absl::Status Put(const Entry& entry) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;
  // Also deletes those of its blobs that do not have their digest, so that the next Put of whoever
  // needs them writes them anew.
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::Status Flush() override { return absl::OkStatus(); }
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  struct Listed {
    Digest name{};
    Bytes record;
  };
  // False: enough.
  using TakePage = std::function<absl::StatusOr<bool>(std::vector<Listed> page)>;

  // redis_recipe_store.cc
  absl::StatusOr<Entry> ReadEntry(const Digest& key);
  absl::StatusOr<std::vector<Blob>> ReadBlobs(const Manifest& manifest, Deadline deadline);
  absl::Status WriteEntry(const Entry& entry);
  absl::StatusOr<std::vector<size_t>> MissingBlobs(const std::vector<BlobRef>& refs,
                                                   Deadline deadline);
  absl::Status WriteBlobs(const Entry& entry, const std::vector<BlobRef>& refs, Deadline deadline);
  std::string key(RedisKind kind) const { return RedisKey(client_->options().prefix, kind); }
  std::string key(RedisKind kind, const Digest& name) const {
    return RedisKey(client_->options().prefix, kind, name);
  }
  // Of what manifests need: they outlive them, so that a manifest is not found without.
  std::chrono::milliseconds part_ttl() const;
  // Counts the outcome of a call.
  void Count(const absl::Status& status, std::atomic<uint64_t>& done,
             std::atomic<uint64_t>& missed);

  // redis_aliases.cc
  absl::StatusOr<AliasRecord> ReadAlias(const Digest& id);
  absl::Status WriteAlias(const AliasRecord& alias);
  absl::Status DropAliases(const std::vector<Digest>& ids, Deadline deadline);
  absl::Status DropAliasesOf(const Digest& key, Deadline deadline);
  absl::StatusOr<std::vector<Alias>> ReadAliasesOf(const Digest& key, Deadline deadline);
  absl::StatusOr<std::vector<Listed>> AliasRecordsOf(const Digest& key, Deadline deadline);
  // Whether the entries are there.
  absl::StatusOr<std::vector<bool>> HaveManifests(const std::vector<Digest>& keys,
                                                  Deadline deadline);

  // redis_listing.cc
  Deadline ListDeadline() const;
  Deadline PageDeadline(Deadline deadline) const;
  absl::StatusOr<std::vector<Listed>> ReadRecords(RedisKind kind, const std::vector<Digest>& names,
                                                  Deadline deadline);
  absl::Status ForEachPage(Deadline deadline, const TakePage& take);
  absl::Status TakeOutOfService(const Digest& key, Deadline deadline, Bytes* record);
  absl::Status KeepAside(const Digest& key, const std::string& reason, const Bytes& record,
                         Deadline deadline);
  absl::Status DropBadBlobs(const Bytes& record, Deadline deadline);

  const std::shared_ptr<RedisClient> client_;  // shared with the lease keeper

  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> puts_{0};
  std::atomic<uint64_t> alias_hits_{0};
  std::atomic<uint64_t> alias_misses_{0};
  std::atomic<uint64_t> alias_puts_{0};
  std::atomic<uint64_t> errors_{0};
  std::atomic<uint64_t> incomplete_{0};  // of the misses: a manifest without all its blobs
  std::atomic<uint64_t> blobs_written_{0};
  std::atomic<uint64_t> blobs_known_{0};  // that Put did not need to write
  std::atomic<uint64_t> quarantined_{0};
};

}  // namespace hpu::store
