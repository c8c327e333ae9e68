// RocksDbRecipeStore is the persistent engine. One process writes, and RocksDB's lock enforces
// that.
//
// An entry is written in one synced batch (blobs, then manifest, then access time), so a crash at
// any instant leaves all of it or nothing. The same holds for an alias, which is removed in the
// batch that removes its entry. Writers that come while a batch is synced share the next one.
// Digests are checked for kVerify only; put VerifyingRecipeStore on top.
//
// The index of keys, sizes and uses lives in memory and is rebuilt from the manifests when the
// store is opened. The index of a large store is read in the background; entries are found
// meanwhile, and writers wait for the end. The store evicts a little ahead of need, a few entries
// at a time, so that a writer seldom has to. Shares of tenants are trimmed by what is to be added
// to them, so each share may be full.
//
// When the disk is full or read-only, reading goes on and Put returns UNAVAILABLE. One log line
// says so, and the store tries to write again every kRetryInterval.
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

  // Limits count bytes of blobs and manifests before compression.
  struct Limits {
    uint64_t max_bytes = kDefaultMaxBytes;
    uint64_t tenant_bytes = 0;  // a tenant's share; 0 means that nothing bounds it
    // The sink is told what was evicted. No lock that readers want is held meanwhile.
    EvictionSink evicted;
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

  // Returns false if the folder could not be written when it was opened.
  bool writable() const { return database_.writable; }

  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  absl::Status Put(const Entry& entry) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;

  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;

  void NoteUse(const Digest& key) override;
  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override;
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // A Write is one of the things that a batch does.
  struct Write {
    // Keys and alias ids. Writes that have one in common do not share a batch.
    std::vector<Digest> subjects;
    uint64_t bytes = 0;
    // Plans the removals and additions. Called with mutex_ held, perhaps more than once. An error
    // ends this write alone.
    std::function<absl::Status(StorePlan& plan)> plan;
    std::function<void(rocksdb::WriteBatch& batch)> fill;
    // Called with mutex_ held when the index has the plan's removals.
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
  // Returns false if the time was not enough for all of it.
  absl::StatusOr<bool> ReadIndex(std::chrono::steady_clock::time_point end);
  void IndexIsRead();
  void IndexIsUnreadable(const absl::Status& why);
  absl::Status AwaitIndex();

  // rocksdb_commit.cc
  absl::Status Commit(const Write& write);
  // Requires queue_mutex_.
  std::vector<Waiting*> NextGroup() const;
  // Cuts the group short before a write that finds no room beside those before it.
  void CommitGroup(std::vector<Waiting*>& group);
  void Tell(const std::vector<StoreIndex::Change>& changes) const;
  void AddChange(const StoreIndex::Change& change, rocksdb::WriteBatch& batch) const;
  void AddAccess(const Digest& key, uint64_t record, rocksdb::WriteBatch& batch) const;
  // The first writer of a group calls these two.
  absl::Status CheckWritable();
  absl::Status WriteBatch(rocksdb::WriteBatch& batch);

  // rocksdb_housekeeping.cc
  void KeepHouse();
  void TrimToLimits();
  // Calls `needed` with mutex_ held.
  absl::Status DeleteOrphans(rocksdb::ColumnFamilyHandle* family,
                             const std::function<bool(const StorePlan&, const Digest&)>& needed);
  // Requires mutex_.
  bool HasTooMuch() const;
  // The housekeeper removes what is too much. Returns how many entries, or aliases of them, are
  // gone.
  absl::StatusOr<size_t> RemoveTooMuch();
  // A step removes at most so many entries and returns how many. It is repeated until it removes
  // fewer, or until stopping_.
  using Step = std::function<size_t(StorePlan& plan, size_t max_entries)>;
  absl::StatusOr<size_t> RemoveInSlices(const Step& step, std::vector<Digest>* removed = nullptr);
  // Makes room for an entry that needs more than one slice of removals.
  absl::Status MakeMuchRoom(const Digest& key, uint64_t manifest_bytes,
                            const std::vector<BlobRef>& refs);

  absl::StatusOr<std::vector<Blob>> ReadBlobs(const Manifest& manifest,
                                              const rocksdb::Snapshot* snapshot);
  absl::StatusOr<Entry> Read(const Digest& key);
  // Returns false if there is no such entry; before the index is read, there may be one.
  bool RecordUse(const Digest& key);
  bool MayHave(const Digest& key) const;
  // These two require mutex_.
  bool Has(const Digest& key) const;
  uint64_t AccessRecord(const Digest& key, uint64_t micros) const;

  const Database database_;
  const std::string folder_;
  const Limits limits_;
  // Eviction begins at evict_from_ bytes and ends at evict_to_ bytes.
  const uint64_t evict_from_;
  const uint64_t evict_to_;
  std::atomic<uint64_t> hits_{0};
  std::atomic<bool> stopping_{false};

  std::mutex queue_mutex_;
  // Guarded by queue_mutex_. The first in the queue writes for those behind it.
  std::deque<Waiting*> queue_;
  // Only the first in the queue uses the two fields below.
  bool failing_ = false;
  std::chrono::steady_clock::time_point retry_at_{};

  std::mutex read_mutex_;
  std::condition_variable read_changed_;
  // True when the index is read; set with read_mutex_ held.
  std::atomic<bool> is_read_{false};
  // The fields below are guarded by read_mutex_.
  absl::Status unreadable_;
  // Uses before the index was read: key -> microseconds.
  std::map<Digest, uint64_t> early_uses_;
  // Only the thread that reads the index uses the two fields below.
  std::unique_ptr<IndexReader> reader_;
  bool has_other_versions_ = false;  // there are manifests of another version

  mutable std::mutex mutex_;
  std::condition_variable grown_;
  // The fields below are guarded by mutex_.
  StoreIndex index_;
  // Entries that are about to be removed. No caller gets them.
  std::set<Digest> withdrawn_;
  std::map<Digest, uint64_t> unsaved_accesses_;  // key -> access record
  uint64_t evictions_ = 0;
  uint64_t share_evictions_ = 0;
  uint64_t quarantined_ = 0;
  uint64_t write_failures_ = 0;

  std::thread housekeeper_;
};

}  // namespace hpu::store
