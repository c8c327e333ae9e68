// The part of RocksDbRecipeStore that opens the store and reads the index, a piece at a time.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "recipe_store/rocksdb/rocksdb_bytes.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {
namespace {

constexpr size_t kPiece = 256;  // manifests or aliases

// This mark lies beside the folder of a database whose damage was seen only after it was opened.
std::string SuspectMark(const std::string& folder) { return folder + ".suspect"; }

}  // namespace

class RocksDbRecipeStore::IndexReader {
 public:
  struct Known {
    Digest key{};
    uint64_t manifest_bytes = 0;
    std::vector<BlobRef> blobs;
    int64_t created_unix_seconds = 0;
    uint64_t access = 0;  // the access record
  };
  struct KnownAlias {
    Digest id{};
    std::string tenant;
    Digest key{};
    uint64_t bytes = 0;
  };

  explicit IndexReader(const Database& database)
      : manifests_(NewIterator(database, database.manifests)),
        accesses_(NewIterator(database, database.accesses)),
        aliases_(NewIterator(database, database.aliases)) {}

  // Returns the next manifests. Nothing means that those were all.
  absl::StatusOr<std::vector<Known>> Manifests() {
    std::vector<Known> piece;
    for (; manifests_->Valid() && piece.size() < kPiece; manifests_->Next()) {
      Known known;
      if (!ToKey(manifests_->key(), &known.key)) continue;
      const rocksdb::Slice value = manifests_->value();
      // Entries of other versions and damaged ones weigh what their record weighs, so that they age
      // out as all others do. Get judges them.
      known.manifest_bytes = value.size();
      if (const auto record = DecodeSignedRecord(ToSpan(value)); record.ok()) {
        const absl::StatusOr<Manifest> manifest = DecodeManifest(record->record);
        if (absl::IsNotFound(manifest.status())) has_other_versions_ = true;
        if (manifest.ok()) {
          known.manifest_bytes = record->record.size();
          known.blobs = BlobRefs(*manifest);
          known.created_unix_seconds = manifest->created_unix_seconds;
        }
      }
      known.access = AccessOf(manifests_->key());
      piece.push_back(std::move(known));
    }
    RETURN_IF_ERROR(ToStatus(manifests_->status(), "listing manifests"));
    return piece;
  }

  // Returns the next aliases, and leaves out damaged ones and those of other versions.
  absl::StatusOr<std::vector<KnownAlias>> Aliases() {
    std::vector<KnownAlias> piece;
    for (; aliases_->Valid() && piece.size() < kPiece; aliases_->Next()) {
      KnownAlias known;
      const absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(ToSpan(aliases_->value()));
      if (!ToKey(aliases_->key(), &known.id) || !alias.ok()) continue;
      known.tenant = alias->alias.tenant;
      known.key = alias->alias.content_key;
      known.bytes = alias->size_bytes();
      piece.push_back(std::move(known));
    }
    RETURN_IF_ERROR(ToStatus(aliases_->status(), "listing aliases"));
    return piece;
  }

  bool has_other_versions() const { return has_other_versions_; }

 private:
  static std::unique_ptr<rocksdb::Iterator> NewIterator(const Database& database,
                                                        rocksdb::ColumnFamilyHandle* family) {
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator(options, family));
    it->SeekToFirst();
    return it;
  }

  // The keys must come in order.
  uint64_t AccessOf(const rocksdb::Slice& key) {
    while (accesses_->Valid() && accesses_->key().compare(key) < 0) accesses_->Next();
    uint64_t record = 0;
    if (!accesses_->Valid() || accesses_->key() != key) return record;
    if (accesses_->value().size() == sizeof(record)) {
      std::memcpy(&record, accesses_->value().data(), sizeof(record));
    }
    return record;
  }

  const std::unique_ptr<rocksdb::Iterator> manifests_;
  const std::unique_ptr<rocksdb::Iterator> accesses_;
  const std::unique_ptr<rocksdb::Iterator> aliases_;
  bool has_other_versions_ = false;
};

RocksDbRecipeStore::RocksDbRecipeStore(Database database, std::string folder, Limits limits)
    : database_(std::move(database)),
      folder_(std::move(folder)),
      limits_(std::move(limits)),
      evict_from_(limits_.max_bytes - limits_.max_bytes / 128),
      evict_to_(limits_.max_bytes - limits_.max_bytes / 64),
      index_(limits_.max_bytes, limits_.tenant_bytes) {}

RocksDbRecipeStore::~RocksDbRecipeStore() {
  {
    const std::scoped_lock lock(read_mutex_, mutex_);
    stopping_ = true;
  }
  read_changed_.notify_all();
  grown_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
  if (absl::Status flushed = Flush(); !flushed.ok()) {
    HPU_LOG(kDebug, "access times lost error=" << ToText(flushed));
  }
}

absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> RocksDbRecipeStore::Open(
    const std::string& folder, Limits limits, std::chrono::milliseconds index_patience) {
  const std::string mark = SuspectMark(folder);
  bool was_damaged = false;
  if (std::filesystem::exists(mark)) {
    RETURN_IF_ERROR(MoveDatabaseAside(folder, "its index could not be read"));
    std::filesystem::remove(mark);
    was_damaged = true;
  }
  absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> store =
      OpenIndexed(folder, limits, was_damaged, index_patience);
  if (absl::IsDataLoss(store.status())) {
    // Damage that only shows when the manifests are read would show at every start.
    RETURN_IF_ERROR(MoveDatabaseAside(folder, ToText(store.status())));
    store = OpenIndexed(folder, limits, /*was_damaged=*/true, index_patience);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> RocksDbRecipeStore::OpenIndexed(
    const std::string& folder, const Limits& limits, bool was_damaged,
    std::chrono::milliseconds index_patience) {
  ASSIGN_OR_RETURN(Database database, OpenDatabase(folder));
  database.was_damaged |= was_damaged;
  std::unique_ptr<RocksDbRecipeStore> store(
      new RocksDbRecipeStore(std::move(database), folder, limits));
  store->reader_ = std::make_unique<IndexReader>(store->database_);
  const absl::StatusOr<bool> read =
      store->ReadIndex(std::chrono::steady_clock::now() + index_patience);
  RETURN_IF_ERROR_AT(read.status(), "reading the recipe store " + folder);
  if (*read) {
    store->IndexIsRead();
    store->TrimToLimits();
  } else {
    HPU_LOG(kInfo, "reading the store's index in the background folder=" << folder);
  }
  store->housekeeper_ = std::thread([raw = store.get()] { raw->KeepHouse(); });
  return store;
}

absl::StatusOr<bool> RocksDbRecipeStore::ReadIndex(std::chrono::steady_clock::time_point end) {
  const auto time_is_up = [&] { return stopping_ || std::chrono::steady_clock::now() >= end; };
  while (!time_is_up()) {
    ASSIGN_OR_RETURN(const std::vector<IndexReader::Known> piece, reader_->Manifests());
    if (piece.empty()) break;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const IndexReader::Known& known : piece) {
      index_.Insert(known.key, known.manifest_bytes, known.blobs, known.created_unix_seconds,
                    known.access & ~kPinned);
      index_.Pin(known.key, (known.access & kPinned) != 0);
    }
  }
  has_other_versions_ = reader_->has_other_versions();
  while (!time_is_up()) {
    ASSIGN_OR_RETURN(const std::vector<IndexReader::KnownAlias> piece, reader_->Aliases());
    if (piece.empty()) return true;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const IndexReader::KnownAlias& known : piece) {
      // TrimToLimits deletes aliases without an entry, which costs a capture.
      if (!index_.Contains(known.key)) continue;
      index_.InsertAlias(known.id, known.tenant, known.key, known.bytes);
    }
  }
  return false;
}

void RocksDbRecipeStore::IndexIsRead() {
  reader_ = nullptr;
  std::lock_guard<std::mutex> lock(mutex_);
  index_.OrderByUse();
  std::map<Digest, uint64_t> uses;
  {
    std::lock_guard<std::mutex> reading(read_mutex_);
    uses.swap(early_uses_);
    is_read_ = true;
  }
  read_changed_.notify_all();
  for (const auto& [key, micros] : uses) {
    if (index_.Touch(key, micros)) unsaved_accesses_[key] = AccessRecord(key, micros);
  }
}

void RocksDbRecipeStore::IndexIsUnreadable(const absl::Status& why) {
  HPU_LOG(kError,
          "the store's index cannot be read; new programs are not kept until a restart, "
          "which begins a new store folder="
              << folder_ << " error=" << ToText(why));
  std::ofstream(SuspectMark(folder_)) << ToText(why) << "\n";
  {
    std::lock_guard<std::mutex> lock(read_mutex_);
    unreadable_ =
        Error(absl::StatusCode::kUnavailable, "the store's index cannot be read: ", ToText(why));
  }
  read_changed_.notify_all();
}

absl::Status RocksDbRecipeStore::AwaitIndex() {
  if (is_read_) return absl::OkStatus();
  std::unique_lock<std::mutex> lock(read_mutex_);
  read_changed_.wait(lock, [&] { return is_read_ || stopping_ || !unreadable_.ok(); });
  if (is_read_) return absl::OkStatus();
  if (!unreadable_.ok()) return unreadable_;
  return Error(absl::StatusCode::kUnavailable, "the store is being closed");
}

}  // namespace hpu::store
