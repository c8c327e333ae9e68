#include "recipe_store/rocksdb_recipe_store.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "recipe_store/rocksdb_bytes.h"

namespace hpu::store {
namespace {

// Kept for inspection; older builds' and older faults' records go when there are more.
constexpr size_t kMaxQuarantined = 1000;

// An access record is the time of the last use, microseconds of the epoch, and this where the entry
// is pinned. Builds that know no pins take it for a use in the far future, and so keep the entry.
constexpr uint64_t kPinned = uint64_t{1} << 63;

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

absl::StatusOr<Manifest> DecodeStored(const rocksdb::Slice& value, SignedRecord* signed_manifest) {
  ASSIGN_OR_RETURN(*signed_manifest, DecodeSignedRecord(ToSpan(value)));
  return DecodeManifest(signed_manifest->record);
}

// Compressed, and with what was deleted but not yet cleared away; without the write-ahead log.
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

absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> RocksDbRecipeStore::Open(
    const std::string& folder, Limits limits) {
  absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> store =
      OpenIndexed(folder, limits, /*was_damaged=*/false);
  if (absl::IsDataLoss(store.status())) {
    // Damage that only shows when the manifests are read would show at every start.
    RETURN_IF_ERROR(MoveDatabaseAside(folder, ToText(store.status())));
    store = OpenIndexed(folder, std::move(limits), /*was_damaged=*/true);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> RocksDbRecipeStore::OpenIndexed(
    const std::string& folder, Limits limits, bool was_damaged) {
  ASSIGN_OR_RETURN(Database database, OpenDatabase(folder));
  database.was_damaged |= was_damaged;
  std::unique_ptr<RocksDbRecipeStore> store(
      new RocksDbRecipeStore(std::move(database), std::move(limits)));
  RETURN_IF_ERROR_AT(store->LoadIndex(), "reading the recipe store " + folder);
  RETURN_IF_ERROR_AT(store->LoadAliases(), "reading the recipe store " + folder);
  if (store->database_.writable) {
    if (absl::Status trimmed = store->TrimToLimits(); !trimmed.ok()) {
      HPU_LOG(kWarning, "store not trimmed error=" << ToText(trimmed));
    }
  }
  return store;
}

RocksDbRecipeStore::~RocksDbRecipeStore() {
  if (absl::Status flushed = Flush(); !flushed.ok()) {
    HPU_LOG(kDebug, "access times lost error=" << ToText(flushed));
  }
}

absl::Status RocksDbRecipeStore::LoadIndex() {
  struct Known {
    uint64_t used_micros = 0;
    Digest key{};
    uint64_t manifest_bytes = 0;
    std::vector<BlobRef> blobs;
  };
  std::vector<Known> entries;
  const std::unique_ptr<rocksdb::Iterator> it(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.manifests));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    Known known;
    SignedRecord signed_manifest;
    const absl::StatusOr<Manifest> manifest = DecodeStored(it->value(), &signed_manifest);
    // Entries of other versions and damaged ones weigh what their record weighs, so that they age
    // out as all others do; Get judges them.
    if (!ToKey(it->key(), &known.key)) continue;
    if (absl::IsNotFound(manifest.status())) has_other_versions_ = true;
    known.manifest_bytes = manifest.ok() ? signed_manifest.record.size() : it->value().size();
    if (manifest.ok()) known.blobs = BlobRefs(*manifest);
    std::string used;
    if (database_.db->Get(rocksdb::ReadOptions(), database_.accesses, it->key(), &used).ok() &&
        used.size() == sizeof(known.used_micros)) {
      std::memcpy(&known.used_micros, used.data(), used.size());
    }
    entries.push_back(std::move(known));
  }
  RETURN_IF_ERROR(ToStatus(it->status(), "listing manifests"));
  std::ranges::sort(entries, {}, [](const Known& known) { return known.used_micros & ~kPinned; });
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Known& known : entries) {
    index_.Insert(known.key, known.manifest_bytes, known.blobs, known.used_micros & ~kPinned);
    index_.Pin(known.key, (known.used_micros & kPinned) != 0);
  }
  return absl::OkStatus();
}

// A smaller limit than last time, blobs without an entry (their manifests were of another version),
// aliases without one, too many quarantine records.
absl::Status RocksDbRecipeStore::TrimToLimits() {
  std::lock_guard<std::mutex> writing(write_mutex_);
  rocksdb::WriteBatch batch = ProtectedBatch();
  StoreIndex::Change change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    change = index_.PlanTrim();
  }
  AddRemovals(change, &batch);
  const std::unique_ptr<rocksdb::Iterator> blobs(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.blobs));
  // What manifests of other versions need is unknown, so nothing is an orphan while there are any.
  for (blobs->SeekToFirst(); !has_other_versions_ && blobs->Valid(); blobs->Next()) {
    Digest digest;
    if (ToKey(blobs->key(), &digest) && index_.ContainsBlob(digest)) continue;
    batch.Delete(database_.blobs, blobs->key());
  }
  const std::unique_ptr<rocksdb::Iterator> bad(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.quarantine));
  size_t count = 0;
  for (bad->SeekToFirst(); bad->Valid(); bad->Next()) {
    if (++count > kMaxQuarantined) batch.Delete(database_.quarantine, bad->key());
  }
  const std::unique_ptr<rocksdb::Iterator> aliases(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.aliases));
  for (aliases->SeekToFirst(); aliases->Valid(); aliases->Next()) {
    Digest id;
    if (ToKey(aliases->key(), &id) && index_.ContainsAlias(id)) continue;
    batch.Delete(database_.aliases, aliases->key());
  }
  if (batch.Count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  std::vector<StoreIndex::Loss> losses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    losses = ApplyWritten(change);
  }
  Tell(losses, /*of_share=*/false);
  return absl::OkStatus();
}

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

bool RocksDbRecipeStore::RecordUse(const Digest& key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t now = MicrosOfEpoch();
  if (!index_.Touch(key, now)) return false;
  if (database_.writable) unsaved_accesses_[key] = AccessRecord(key, now);
  return true;
}

void RocksDbRecipeStore::NoteUse(const Digest& key) { RecordUse(key); }

absl::StatusOr<Entry> RocksDbRecipeStore::Get(const Digest& key) {
  if (!RecordUse(key)) return NotFound("key ", ToHex(key), " is not in the store");
  return Read(key);
}

absl::StatusOr<Entry> RocksDbRecipeStore::Peek(const Digest& key) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.Contains(key)) return NotFound("key ", ToHex(key), " is not in the store");
  }
  return Read(key);
}

absl::StatusOr<Entry> RocksDbRecipeStore::Read(const Digest& key) {
  // One snapshot for manifest and blobs: an eviction in between must not look like damage.
  const ScopedSnapshot snapshot(database_.db.get());
  rocksdb::ReadOptions options;
  options.snapshot = snapshot.get();
  rocksdb::PinnableSlice value;
  RETURN_IF_ERROR(ToStatus(database_.db->Get(options, database_.manifests, ToSlice(key), &value),
                           "reading manifest " + ToHex(key)));
  SignedRecord signed_manifest;
  ASSIGN_OR_RETURN(const Manifest manifest, DecodeStored(value, &signed_manifest));
  if (manifest.key() != key)
    return DataLoss("the manifest under ", ToHex(key), " is of another key");
  ASSIGN_OR_RETURN(std::vector<Blob> blobs, ReadBlobs(manifest, snapshot.get()));
  ++hits_;
  return MakeEntry(std::move(signed_manifest), std::move(blobs));
}

absl::Status RocksDbRecipeStore::Put(const Entry& entry) {
  const Digest key = entry.manifest.key();
  const Bytes record = EncodeSignedRecord(entry.signed_manifest);
  const uint64_t manifest_bytes = entry.signed_manifest.record.size();
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  std::lock_guard<std::mutex> writing(write_mutex_);
  RETURN_IF_ERROR(CheckWritable());
  StoreIndex::Change change;
  const uint64_t now = MicrosOfEpoch();
  uint64_t access = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(change, index_.PlanInsert(key, manifest_bytes, refs));
    access = AccessRecord(key, now);
  }
  rocksdb::WriteBatch batch = ProtectedBatch();
  AddRemovals(change, &batch);
  for (size_t i = 0; i < refs.size(); ++i) {
    // Also blobs that are there already: a damaged one is healed this way.
    batch.Put(database_.blobs, ToSlice(refs[i].digest), ToSlice(*entry.blobs[i]));
  }
  batch.Put(database_.manifests, ToSlice(key), ToSlice(record));
  AddAccess(key, access, &batch);
  RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  std::vector<StoreIndex::Loss> losses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    losses = ApplyWritten(change);
    index_.Insert(key, manifest_bytes, refs, now);
  }
  Tell(losses, /*of_share=*/false);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Manifest>> RocksDbRecipeStore::List(size_t limit) {
  std::vector<Manifest> manifests;
  const std::unique_ptr<rocksdb::Iterator> it(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.manifests));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    SignedRecord signed_manifest;
    absl::StatusOr<Manifest> manifest = DecodeStored(it->value(), &signed_manifest);
    if (manifest.ok()) manifests.push_back(*std::move(manifest));
  }
  RETURN_IF_ERROR(ToStatus(it->status(), "listing manifests"));
  NewestFirst(manifests, limit);
  return manifests;
}

absl::Status RocksDbRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  std::lock_guard<std::mutex> writing(write_mutex_);
  StoreIndex::Change change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    change = index_.PlanRemove(key);
    if (change.removed_keys.empty()) return absl::OkStatus();
    if (index_.IsPinned(key)) {
      HPU_LOG(kWarning, "a pinned program is set aside and its pin with it key=" << ToHex(key));
    }
  }
  rocksdb::WriteBatch batch = ProtectedBatch();
  std::string record;
  if (database_.db->Get(rocksdb::ReadOptions(), database_.manifests, ToSlice(key), &record).ok()) {
    batch.Put(database_.quarantine, ToSlice(key), reason + "\n" + record);
  }
  AddRemovals(change, &batch);
  // Out of the index first: even if the disk refuses the deletion, nobody is handed the entry
  // again.
  {
    std::lock_guard<std::mutex> lock(mutex_);
    index_.Apply(change);
    ++quarantined_;
  }
  RETURN_IF_ERROR(CheckWritable());
  return Write(&batch, /*sync=*/true);
}

uint64_t RocksDbRecipeStore::AccessRecord(const Digest& key, uint64_t micros) const {
  return index_.IsPinned(key) ? micros | kPinned : micros;
}

absl::Status RocksDbRecipeStore::Flush() {
  std::lock_guard<std::mutex> writing(write_mutex_);
  if (!database_.writable) return absl::OkStatus();
  rocksdb::WriteBatch batch = ProtectedBatch();
  AddRemovals({}, &batch);
  if (batch.Count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckWritable());
  return Write(&batch, /*sync=*/true);
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

std::vector<StoreIndex::Loss> RocksDbRecipeStore::ApplyWritten(const StoreIndex::Change& change) {
  std::vector<StoreIndex::Loss> losses = index_.Losses(change);
  index_.Apply(change);
  evictions_ += change.removed_keys.size();
  return losses;
}

void RocksDbRecipeStore::AddRemovals(const StoreIndex::Change& change, rocksdb::WriteBatch* batch) {
  std::map<Digest, uint64_t> accesses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    accesses.swap(unsaved_accesses_);
  }
  for (const Digest& key : change.removed_keys) {
    batch->Delete(database_.manifests, ToSlice(key));
    batch->Delete(database_.accesses, ToSlice(key));
    accesses.erase(key);
  }
  for (const auto& [key, micros] : accesses) AddAccess(key, micros, batch);
  for (const Digest& digest : change.dropped_blobs) {
    batch->Delete(database_.blobs, ToSlice(digest));
  }
  for (const Digest& id : change.removed_aliases) batch->Delete(database_.aliases, ToSlice(id));
}

void RocksDbRecipeStore::AddAccess(const Digest& key, uint64_t record,
                                   rocksdb::WriteBatch* batch) const {
  batch->Put(database_.accesses, ToSlice(key),
             rocksdb::Slice(reinterpret_cast<const char*>(&record), sizeof(record)));
}

absl::Status RocksDbRecipeStore::CheckWritable() {
  if (!database_.writable) {
    return Error(absl::StatusCode::kUnavailable, "the store is open for reading only");
  }
  if (!failing_) return absl::OkStatus();
  if (std::chrono::steady_clock::now() < retry_at_) {
    return Error(absl::StatusCode::kUnavailable, "the store cannot be written at the moment");
  }
  return ToStatus(database_.db->Resume(), "resuming writes");
}

absl::Status RocksDbRecipeStore::Write(rocksdb::WriteBatch* batch, bool sync) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status status = database_.db->Write(options, batch);
  if (status.ok()) {
    if (std::exchange(failing_, false)) HPU_LOG(kInfo, "store can be written again");
    return absl::OkStatus();
  }
  if (!std::exchange(failing_, true)) {
    HPU_LOG(kWarning,
            "store cannot be written, serving what it has; new programs are not kept error="
                << status.ToString());
  }
  retry_at_ = std::chrono::steady_clock::now() + kRetryInterval;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++write_failures_;
  }
  return ToStatus(status, "writing to the store");
}

}  // namespace hpu::store
