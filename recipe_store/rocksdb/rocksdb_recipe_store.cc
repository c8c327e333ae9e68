#include "recipe_store/rocksdb/rocksdb_recipe_store.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "recipe_store/rocksdb/rocksdb_bytes.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {
namespace {

// List looks up so many manifests at once.
constexpr size_t kListed = 1000;

class ScopedSnapshot {
 public:
  explicit ScopedSnapshot(rocksdb::DB* db) : db_(db), snapshot_(db->GetSnapshot()) {}
  ~ScopedSnapshot() { db_->ReleaseSnapshot(snapshot_); }
  ScopedSnapshot(const ScopedSnapshot&) = delete;
  const rocksdb::Snapshot* get() const { return snapshot_; }

 private:
  rocksdb::DB* const db_;
  const rocksdb::Snapshot* const snapshot_;
};

// Returns the bytes of compressed data, including what is deleted and not yet cleared away, and
// without the write-ahead log.
uint64_t BytesOnDisk(const Database& database) {
  uint64_t bytes = 0;
  for (rocksdb::ColumnFamilyHandle* family : database.handles) {
    for (const std::string& property : {rocksdb::DB::Properties::kTotalSstFilesSize,
                                        rocksdb::DB::Properties::kTotalBlobFileSize}) {
      uint64_t size = 0;
      if (database.db->GetIntProperty(family, property, &size)) bytes += size;
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<Blob>> RocksDbRecipeStore::ReadBlobs(const Manifest& manifest,
                                                                const rocksdb::Snapshot* snapshot) {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  std::vector<Blob> blobs;
  for (const BlobRef& ref : BlobRefs(manifest)) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status status =
        database_.db->Get(options, database_.blobs, ToSlice(ref.digest), &value);
    if (status.IsNotFound()) return DataLoss("blob ", ToHex(ref.digest), " is missing");
    RETURN_IF_ERROR(ToStatus(status, "reading blob " + ToHex(ref.digest)));
    const auto bytes = ToSpan(value);
    blobs.push_back(std::make_shared<const Bytes>(bytes.begin(), bytes.end()));
  }
  return blobs;
}

bool RocksDbRecipeStore::Has(const Digest& key) const {
  return index_.Contains(key) && !withdrawn_.contains(key);
}

bool RocksDbRecipeStore::RecordUse(const Digest& key) {
  const uint64_t now = MicrosOfEpoch();
  if (!is_read_) {
    std::lock_guard<std::mutex> lock(read_mutex_);
    if (!is_read_) {
      early_uses_[key] = now;
      // Before the index is read, there may be such an entry.
      return true;
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (!Has(key)) return false;
  index_.Touch(key, now);
  if (database_.writable) unsaved_accesses_[key] = AccessRecord(key, now);
  return true;
}

void RocksDbRecipeStore::NoteUse(const Digest& key) { RecordUse(key); }

absl::StatusOr<Entry> RocksDbRecipeStore::Find(const Digest& key, Purpose purpose) {
  const bool found = purpose == Purpose::kUse ? RecordUse(key) : MayHave(key);
  if (!found) return NotFound("key ", ToHex(key), " is not in the store");
  ASSIGN_OR_RETURN(Entry entry, Read(key));
  if (purpose == Purpose::kVerify) RETURN_IF_ERROR(CheckDigests(entry));
  return entry;
}

bool RocksDbRecipeStore::MayHave(const Digest& key) const {
  if (!is_read_) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  return Has(key);
}

absl::StatusOr<Entry> RocksDbRecipeStore::Read(const Digest& key) {
  // Manifest and blobs are read from one snapshot, so that an eviction in between does not look
  // like damage.
  const ScopedSnapshot snapshot(database_.db.get());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  rocksdb::PinnableSlice value;
  RETURN_IF_ERROR(ToStatus(database_.db->Get(options, database_.manifests, ToSlice(key), &value),
                           "reading manifest " + ToHex(key)));
  ASSIGN_OR_RETURN(StoredManifest stored, DecodeStoredManifest(ToSpan(value), key));
  ASSIGN_OR_RETURN(std::vector<Blob> blobs, ReadBlobs(stored.manifest, snapshot.get()));
  ++hits_;
  return MakeEntry(std::move(stored.signed_record), std::move(blobs));
}

absl::Status RocksDbRecipeStore::Put(const Entry& entry) {
  const Digest key = entry.manifest.key();
  const Bytes record = EncodeSignedRecord(entry.signed_manifest);
  const uint64_t manifest_bytes = entry.signed_manifest.record.size();
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  const uint64_t now = MicrosOfEpoch();
  uint64_t access = 0;
  Write write{.subjects = {key}, .bytes = entry.size_bytes()};
  write.plan = [&](StorePlan& plan) {
    access = AccessRecord(key, now);
    return plan.Insert(key, manifest_bytes, refs);
  };
  write.fill = [&](rocksdb::WriteBatch& batch) {
    for (size_t i = 0; i < refs.size(); ++i) {
      // Blobs that are there already are written as well, which heals a damaged one.
      batch.Put(database_.blobs, ToSlice(refs[i].digest), ToSlice(*entry.blobs[i]));
    }
    batch.Put(database_.manifests, ToSlice(key), ToSlice(record));
    AddAccess(key, access, batch);
  };
  write.written = [&](const StoreIndex::Change& change) {
    evictions_ += change.removed_keys.size();
    index_.Insert(key, manifest_bytes, refs, entry.manifest.created_unix_seconds, now);
  };
  RETURN_IF_ERROR(MakeMuchRoom(key, manifest_bytes, refs));
  return Commit(write);
}

absl::StatusOr<std::vector<Manifest>> RocksDbRecipeStore::List(
    size_t limit, const std::optional<ListPosition>& after) {
  RETURN_IF_ERROR(AwaitIndex());
  std::vector<Manifest> manifests;
  std::optional<ListPosition> last = after;
  while (limit == 0 || manifests.size() < limit) {
    std::vector<ListPosition> page;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      page = index_.Page(limit == 0 ? kListed : std::min(kListed, limit - manifests.size()), last);
    }
    if (page.empty()) break;
    last = page.back();
    for (const ListPosition& position : page) {
      std::string value;
      const rocksdb::Status found = database_.db->Get(rocksdb::ReadOptions(), database_.manifests,
                                                      ToSlice(position.key), &value);
      if (found.IsNotFound()) continue;
      RETURN_IF_ERROR(ToStatus(found, "listing manifests"));
      absl::StatusOr<StoredManifest> stored = DecodeStoredManifest(ToSpan(value));
      if (stored.ok()) manifests.push_back(std::move(stored->manifest));
    }
  }
  return manifests;
}

absl::Status RocksDbRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  RETURN_IF_ERROR(AwaitIndex());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.Contains(key)) return absl::OkStatus();
    if (index_.IsPinned(key)) {
      HPU_LOG(kWarning, "a pinned program is set aside and its pin with it key=" << ToHex(key));
    }
    // No caller gets the entry again, even if the disk refuses the deletion.
    withdrawn_.insert(key);
  }
  Write write{.subjects = {key}};
  write.plan = [&](StorePlan& plan) {
    plan.Remove(key);
    return absl::OkStatus();
  };
  write.fill = [&](rocksdb::WriteBatch& batch) {
    std::string record;
    if (!database_.db->Get(rocksdb::ReadOptions(), database_.manifests, ToSlice(key), &record).ok())
      return;
    batch.Put(database_.quarantine, ToSlice(key), reason + "\n" + record);
  };
  absl::Status removed = Commit(write);
  std::lock_guard<std::mutex> lock(mutex_);
  if (!removed.ok()) index_.Apply(index_.PlanRemove(key));
  withdrawn_.erase(key);
  ++quarantined_;
  return removed;
}

uint64_t RocksDbRecipeStore::AccessRecord(const Digest& key, uint64_t micros) const {
  return index_.IsPinned(key) ? micros | kPinned : micros;
}

absl::Status RocksDbRecipeStore::Flush() {
  if (!database_.writable || !is_read_) return absl::OkStatus();
  while (true) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (unsaved_accesses_.empty()) return absl::OkStatus();
    }
    RETURN_IF_ERROR(Commit({}));
  }
}

void RocksDbRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["rocksdb.disk_bytes"] += BytesOnDisk(database_);
  counters["rocksdb.hits"] += hits_;
  std::lock_guard<std::mutex> lock(mutex_);
  counters["rocksdb.bytes"] += index_.total_bytes();
  counters["rocksdb.max_bytes"] += index_.max_bytes();
  counters["rocksdb.entries"] += index_.entry_count();
  counters["rocksdb.blobs"] += index_.blob_count();
  counters["rocksdb.aliases"] += index_.alias_count();
  counters["rocksdb.evictions"] += evictions_;
  counters["rocksdb.share_evictions"] += share_evictions_;
  counters["rocksdb.largest_share_bytes"] += index_.LargestShare();
  counters["rocksdb.quarantined"] += quarantined_;
  counters["rocksdb.write_failures"] += write_failures_;
  counters["rocksdb.damaged_at_start"] += database_.was_damaged ? 1 : 0;
}

}  // namespace hpu::store
