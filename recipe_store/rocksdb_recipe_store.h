// The persistent layer. One process writes; RocksDB's lock enforces it.
//
// An entry is written as one synced batch (blobs, then manifest, then access time), so a crash at
// any instant leaves all of it or nothing; an alias as one of its own, removed in the batch that
// removes its entry. Digests are not checked here: put VerifyingRecipeStore
// on top. The index of keys, sizes and uses lives in memory and is rebuilt from the manifests on
// open. When the disk is full or read-only, reading goes on and Put answers UNAVAILABLE; one log
// line says so, and writing is tried again every kRetryInterval.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>

#include "recipe_store/recipe_store.h"
#include "recipe_store/rocksdb_open.h"
#include "recipe_store/store_index.h"

namespace hpu::store {

class RocksDbRecipeStore : public RecipeStore {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{10} << 30;
  static constexpr std::chrono::seconds kRetryInterval{30};

  // Of blobs and manifests before compression.
  struct Limits {
    uint64_t max_bytes = kDefaultMaxBytes;
    uint64_t tenant_bytes = 0;  // a tenant's share; 0 = nothing bounds it
    EvictionSink evicted;  // is told what they cost; not while a lock is held that readers want
  };
  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> Open(const std::string& folder,
                                                                  Limits limits);
  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> Open(const std::string& folder,
                                                                  uint64_t max_bytes) {
    return Open(folder, Limits{.max_bytes = max_bytes, .evicted = {}});
  }
  ~RocksDbRecipeStore() override;

  absl::StatusOr<Entry> Get(const Digest& key) override;
  absl::StatusOr<Entry> Peek(const Digest& key) override;
  void NoteUse(const Digest& key) override;
  absl::Status Put(const Entry& entry) override;
  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  absl::StatusOr<std::vector<Alias>> ListAliases() override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  absl::StatusOr<std::vector<Digest>> Keys() override;
  absl::Status Verify(const Digest& key) override;
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  RocksDbRecipeStore(Database database, Limits limits)
      : database_(std::move(database)), limits_(std::move(limits)), index_(limits_.max_bytes) {}

  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> OpenIndexed(const std::string& folder,
                                                                         Limits limits,
                                                                         bool was_damaged);
  absl::Status LoadIndex();
  absl::Status LoadAliases();
  absl::Status TrimToLimits();
  absl::StatusOr<std::vector<Blob>> ReadBlobs(const Manifest& manifest,
                                              const rocksdb::Snapshot* snapshot);
  // After the change's batch is written. What it cost is to be told when mutex_ is free again.
  std::vector<StoreIndex::Loss> ApplyWritten(const StoreIndex::Change& change);  // mutex_ held
  void Tell(const std::vector<StoreIndex::Loss>& losses, bool of_share) const;
  // Of the tenant, for an entry and an alias that come in.
  absl::Status TrimShare(const std::string& tenant, const Digest& key, uint64_t entry_bytes,
                         uint64_t alias_bytes);  // write_mutex_ held
  // Deletes of a change; then the access times noted since the last write.
  void AddRemovals(const StoreIndex::Change& change, rocksdb::WriteBatch* batch);
  absl::StatusOr<Entry> Read(const Digest& key);
  bool RecordUse(const Digest& key);                                // false: there is no such entry
  uint64_t AccessRecord(const Digest& key, uint64_t micros) const;  // mutex_ held
  void AddAccess(const Digest& key, uint64_t record, rocksdb::WriteBatch* batch) const;
  absl::Status Write(rocksdb::WriteBatch* batch, bool sync);  // write_mutex_ held
  absl::Status CheckWritable();                               // write_mutex_ held

  const Database database_;
  const Limits limits_;
  bool has_other_versions_ = false;  // manifests of another version; constant after Open

  // Serialises writers from plan to write to index; readers never wait for it.
  std::mutex write_mutex_;
  // Guarded by write_mutex_.
  bool failing_ = false;
  std::chrono::steady_clock::time_point retry_at_{};

  std::atomic<uint64_t> hits_{0};

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  StoreIndex index_;
  std::map<Digest, uint64_t> unsaved_accesses_;  // key -> access record
  uint64_t evictions_ = 0;
  uint64_t share_evictions_ = 0;
  uint64_t quarantined_ = 0;
  uint64_t write_failures_ = 0;
};

}  // namespace hpu::store
