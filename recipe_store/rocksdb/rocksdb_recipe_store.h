// The persistent layer. One process writes; RocksDB's lock enforces it.
//
// An entry is written in one synced batch (blobs, then manifest, then access time), so a crash at
// any instant leaves all of it or nothing; an alias likewise, removed in the batch that removes its
// entry. Writers that come while a batch is synced share the next one. Digests are not checked
// here: put VerifyingRecipeStore on top.
//
// The index of keys, sizes and uses lives in memory and is rebuilt from the manifests on open: of a
// large store in the background, where entries are found meanwhile and writers wait for the end.
// The store evicts a little ahead of need, a few entries at a time, so that a writer seldom does.
// Shares of tenants are trimmed by what is to be added to them: each may be filled to the brim.
// When the disk is full or read-only, reading goes on and Put answers UNAVAILABLE; one log line
// says so, and writing is tried again every kRetryInterval.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "recipe_store/recipe_store.h"
#include "recipe_store/rocksdb/rocksdb_open.h"
#include "recipe_store/store_plan.h"

namespace hpu::store {

class RocksDbRecipeStore : public RecipeStore {
 public:
  static constexpr uint64_t kDefaultMaxBytes = uint64_t{10} << 30;
  static constexpr std::chrono::seconds kRetryInterval{30};

  // An index that takes longer to read is read in the background.
  static constexpr std::chrono::milliseconds kIndexPatience{500};

  // Of blobs and manifests before compression.
  struct Limits {
    uint64_t max_bytes = kDefaultMaxBytes;
    uint64_t tenant_bytes = 0;  // a tenant's share; 0 = nothing bounds it
    EvictionSink evicted;  // is told what they cost; not while a lock is held that readers want
  };
  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> Open(
      const std::string& folder, Limits limits,
      std::chrono::milliseconds index_patience = kIndexPatience);
  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> Open(
      const std::string& folder, uint64_t max_bytes,
      std::chrono::milliseconds index_patience = kIndexPatience) {
    return Open(folder, Limits{.max_bytes = max_bytes, .evicted = {}}, index_patience);
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
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override;
  absl::Status Verify(const Digest& key) override;
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // What a batch does, one of several.
  struct Write {
    // Keys and alias ids. Writes that have one in common do not share a batch.
    std::vector<Digest> subjects;
    uint64_t bytes = 0;
    // mutex_ held; perhaps more than once. An error ends this write alone.
    std::function<absl::Status(StorePlan& plan)> plan;
    std::function<void(rocksdb::WriteBatch& batch)> fill;
    // The index has the plan's removals; mutex_ held.
    std::function<void(const StoreIndex::Change& change)> written;
  };
  struct Waiting {
    const Write* write = nullptr;
    absl::Status status;
    bool done = false;
    std::condition_variable wake;
  };
  class IndexReader;

  RocksDbRecipeStore(Database database, std::string folder, Limits limits);

  // rocksdb_index.cc
  static absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> OpenIndexed(
      const std::string& folder, const Limits& limits, bool was_damaged,
      std::chrono::milliseconds index_patience);
  absl::StatusOr<bool> ReadIndex(std::chrono::steady_clock::time_point end);  // whether all of it
  void IndexIsRead();
  void IndexIsUnreadable(const absl::Status& why);
  absl::Status AwaitIndex();

  // rocksdb_commit.cc
  absl::Status Commit(const Write& write);
  std::vector<Waiting*> NextGroup() const;  // queue_mutex_ held
  // Cuts the group short before what finds no room beside those before it.
  void CommitGroup(std::vector<Waiting*>& group);
  void Tell(const std::vector<StoreIndex::Change>& changes) const;
  void AddChange(const StoreIndex::Change& change, rocksdb::WriteBatch& batch) const;
  void AddAccess(const Digest& key, uint64_t record, rocksdb::WriteBatch& batch) const;
  absl::Status CheckWritable();                         // by the first of a group
  absl::Status WriteBatch(rocksdb::WriteBatch& batch);  // by the first of a group

  // rocksdb_housekeeping.cc
  void KeepHouse();
  void TrimToLimits();
  // `needed` is asked with mutex_ held.
  absl::Status DeleteOrphans(rocksdb::ColumnFamilyHandle* family,
                             const std::function<bool(const StorePlan&, const Digest&)>& needed);
  bool HasTooMuch() const;  // mutex_ held
  // What the housekeeper waits for; how many entries or names of them.
  absl::StatusOr<size_t> RemoveTooMuch();
  // `step` removes at most so many and says how many; until that is less, or `stopping_`.
  using Step = std::function<size_t(StorePlan& plan, size_t max_entries)>;
  absl::StatusOr<size_t> RemoveInSlices(const Step& step, std::vector<Digest>* removed = nullptr);
  // For what needs more than one slice to go.
  absl::Status MakeMuchRoom(const Digest& key, uint64_t manifest_bytes,
                            const std::vector<BlobRef>& refs);

  absl::StatusOr<std::vector<Blob>> ReadBlobs(const Manifest& manifest,
                                              const rocksdb::Snapshot* snapshot);
  absl::StatusOr<Entry> Read(const Digest& key);
  bool RecordUse(const Digest& key);                                // false: there is no such entry
  bool Has(const Digest& key) const;                                // mutex_ held
  uint64_t AccessRecord(const Digest& key, uint64_t micros) const;  // mutex_ held

  const Database database_;
  const std::string folder_;
  const Limits limits_;
  const uint64_t evict_from_;  // bytes
  const uint64_t evict_to_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<bool> stopping_{false};

  std::mutex queue_mutex_;
  std::deque<Waiting*> queue_;  // guarded by queue_mutex_; the first writes for those behind it
  // Of the first in the queue.
  bool failing_ = false;
  std::chrono::steady_clock::time_point retry_at_{};

  std::mutex read_mutex_;
  std::condition_variable read_changed_;
  std::atomic<bool> is_read_{false};  // the index; set with read_mutex_ held
  // Guarded by read_mutex_.
  absl::Status unreadable_;
  std::map<Digest, uint64_t> early_uses_;  // before the index was read: key -> microseconds
  // Of the one thread that reads the index.
  std::unique_ptr<IndexReader> reader_;
  bool has_other_versions_ = false;  // manifests of another version

  mutable std::mutex mutex_;
  std::condition_variable grown_;
  // Guarded by mutex_.
  StoreIndex index_;
  std::set<Digest> withdrawn_;                   // about to be removed; nobody is given them
  std::map<Digest, uint64_t> unsaved_accesses_;  // key -> access record
  uint64_t evictions_ = 0;
  uint64_t share_evictions_ = 0;
  uint64_t quarantined_ = 0;
  uint64_t write_failures_ = 0;

  std::thread housekeeper_;
};

}  // namespace hpu::store
