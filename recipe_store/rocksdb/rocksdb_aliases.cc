// The aliases of RocksDbRecipeStore.
#include "recipe_store/rocksdb/rocksdb_bytes.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "recipe_store/stored_entry.h"

namespace hpu::store {

absl::StatusOr<AliasRecord> RocksDbRecipeStore::GetAlias(const Digest& id) {
  if (is_read_) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.ContainsAlias(id)) return NotFound("alias ", ToHex(id), " is not in the store");
  }
  rocksdb::PinnableSlice value;
  RETURN_IF_ERROR(
      ToStatus(database_.db->Get(rocksdb::ReadOptions(), database_.aliases, ToSlice(id), &value),
               "reading alias " + ToHex(id)));
  return DecodeStoredAlias(ToSpan(value));
}

absl::Status RocksDbRecipeStore::PutAlias(const AliasRecord& alias) {
  const Digest id = alias.id();
  const Digest& key = alias.alias.content_key;
  const std::string& tenant = alias.alias.tenant;
  const uint64_t bytes = alias.size_bytes();
  Write write{.subjects = {id, key}, .bytes = bytes};
  write.plan = [&](StorePlan& plan) { return plan.Alias(id, tenant, key, bytes); };
  write.fill = [&](rocksdb::WriteBatch& batch) {
    batch.Put(database_.aliases, ToSlice(id), ToSlice(EncodeSignedRecord(alias.signed_record)));
  };
  write.written = [&](const StoreIndex::Change& change) {
    evictions_ += change.removed_keys.size();
    index_.InsertAlias(id, tenant, key, bytes);
  };
  return Commit(write);
}

absl::Status RocksDbRecipeStore::DropAlias(const Digest& id) {
  RETURN_IF_ERROR(AwaitIndex());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.ContainsAlias(id)) return absl::OkStatus();
  }
  Write write{.subjects = {id}};
  write.plan = [&](StorePlan& plan) {
    plan.RemoveAlias(id);
    return absl::OkStatus();
  };
  const absl::Status dropped = Commit(write);
  std::lock_guard<std::mutex> lock(mutex_);
  // No caller gets the alias again, whatever the disk says.
  if (!dropped.ok()) index_.RemoveAlias(id);
  return dropped;
}

absl::StatusOr<std::vector<Alias>> RocksDbRecipeStore::AliasesOf(const Digest& key) {
  RETURN_IF_ERROR(AwaitIndex());
  std::vector<Digest> ids;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ids = index_.AliasesOf(key);
  }
  std::vector<Alias> aliases;
  for (const Digest& id : ids) {
    rocksdb::PinnableSlice value;
    const rocksdb::Status found =
        database_.db->Get(rocksdb::ReadOptions(), database_.aliases, ToSlice(id), &value);
    if (found.IsNotFound()) continue;
    RETURN_IF_ERROR(ToStatus(found, "reading alias " + ToHex(id)));
    absl::StatusOr<AliasRecord> alias = DecodeStoredAlias(ToSpan(value));
    if (alias.ok()) aliases.push_back(std::move(alias->alias));
  }
  OldestFirst(aliases);
  return aliases;
}

}  // namespace hpu::store
