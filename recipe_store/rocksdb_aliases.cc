// RocksDbRecipeStore: its aliases.
#include "recipe_store/rocksdb_bytes.h"
#include "recipe_store/rocksdb_recipe_store.h"

namespace hpu::store {
namespace {

absl::StatusOr<AliasRecord> DecodeStoredAlias(const rocksdb::Slice& value) {
  ASSIGN_OR_RETURN(SignedRecord signed_record, DecodeSignedRecord(ToSpan(value)));
  return MakeAliasRecord(std::move(signed_record));
}

}  // namespace

// Aliases of entries that are not there, damaged ones and those of other versions stay out of the
// index, and TrimToLimits deletes them: they cost a capture.
absl::Status RocksDbRecipeStore::LoadAliases() {
  const std::unique_ptr<rocksdb::Iterator> it(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.aliases));
  std::lock_guard<std::mutex> lock(mutex_);
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    Digest id;
    const absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(it->value());
    if (!ToKey(it->key(), &id) || !alias.ok()) continue;
    if (!index_.Contains(alias->alias.content_key)) continue;
    index_.InsertAlias(id, alias->alias.tenant, alias->alias.content_key, alias->size_bytes());
  }
  return ToStatus(it->status(), "listing aliases");
}

absl::StatusOr<AliasRecord> RocksDbRecipeStore::GetAlias(const Digest& id) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.ContainsAlias(id)) return NotFound("alias ", ToHex(id), " is not in the store");
  }
  rocksdb::PinnableSlice value;
  RETURN_IF_ERROR(
      ToStatus(database_.db->Get(rocksdb::ReadOptions(), database_.aliases, ToSlice(id), &value),
               "reading alias " + ToHex(id)));
  return DecodeStoredAlias(value);
}

absl::Status RocksDbRecipeStore::PutAlias(const AliasRecord& alias) {
  const Digest id = alias.id();
  const Digest& key = alias.alias.content_key;
  const std::string& tenant = alias.alias.tenant;
  std::lock_guard<std::mutex> writing(write_mutex_);
  RETURN_IF_ERROR(CheckWritable());
  uint64_t entry_bytes = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    entry_bytes = index_.EntryBytes(key);
  }
  if (entry_bytes > 0) {
    RETURN_IF_ERROR(TrimShare(tenant, key, entry_bytes, alias.size_bytes()));
  }
  StoreIndex::Change change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(change, index_.PlanAlias(id, tenant, key, alias.size_bytes()));
  }
  rocksdb::WriteBatch batch = ProtectedBatch();
  AddRemovals(change, &batch);
  batch.Put(database_.aliases, ToSlice(id), ToSlice(EncodeSignedRecord(alias.signed_record)));
  RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  std::vector<StoreIndex::Loss> losses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    losses = ApplyWritten(change);
    index_.InsertAlias(id, tenant, key, alias.size_bytes());
  }
  Tell(losses, /*of_share=*/false);
  return absl::OkStatus();
}

absl::Status RocksDbRecipeStore::DropAlias(const Digest& id) {
  std::lock_guard<std::mutex> writing(write_mutex_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.ContainsAlias(id)) return absl::OkStatus();
    index_.RemoveAlias(id);
  }
  RETURN_IF_ERROR(CheckWritable());
  rocksdb::WriteBatch batch = ProtectedBatch();
  batch.Delete(database_.aliases, ToSlice(id));
  return Write(&batch, /*sync=*/true);
}

absl::StatusOr<std::vector<Alias>> RocksDbRecipeStore::ListAliases() {
  std::vector<Alias> aliases;
  const std::unique_ptr<rocksdb::Iterator> it(
      database_.db->NewIterator(rocksdb::ReadOptions(), database_.aliases));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(it->value());
    if (alias.ok()) aliases.push_back(std::move(alias->alias));
  }
  RETURN_IF_ERROR(ToStatus(it->status(), "listing aliases"));
  OldestFirst(aliases);
  return aliases;
}

}  // namespace hpu::store
