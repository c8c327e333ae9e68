// What the persistent layer does about its entries when it is told to: pins, garbage, reading
// again; and about a tenant that has too much.
#include "base/clock.h"
#include "recipe_store/rocksdb_bytes.h"
#include "recipe_store/rocksdb_recipe_store.h"

namespace hpu::store {

absl::Status RocksDbRecipeStore::Pin(const Digest& key, bool pinned) {
  std::lock_guard<std::mutex> writing(write_mutex_);
  RETURN_IF_ERROR(CheckWritable());
  rocksdb::WriteBatch batch = ProtectedBatch();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!index_.Touch(key, MicrosOfEpoch())) {
      return NotFound("key ", ToHex(key), " is not in the store");
    }
    // From now on: nothing may evict it between here and the write.
    index_.Pin(key, pinned);
    unsaved_accesses_[key] = AccessRecord(key, MicrosOfEpoch());
  }
  AddRemovals({}, &batch);
  return Write(&batch, /*sync=*/true);
}

absl::StatusOr<std::vector<Digest>> RocksDbRecipeStore::Pinned() {
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Pinned();
}

absl::StatusOr<std::vector<Digest>> RocksDbRecipeStore::CollectGarbage(uint64_t max_bytes,
                                                                       uint64_t unused_since) {
  std::lock_guard<std::mutex> writing(write_mutex_);
  RETURN_IF_ERROR(CheckWritable());
  StoreIndex::Change change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    change = index_.PlanGarbage(max_bytes, unused_since);
  }
  rocksdb::WriteBatch batch = ProtectedBatch();
  AddRemovals(change, &batch);
  RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  std::lock_guard<std::mutex> lock(mutex_);
  ApplyWritten(change);
  return std::move(change.removed_keys);
}

absl::StatusOr<std::vector<Digest>> RocksDbRecipeStore::Keys() {
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Keys();
}

absl::Status RocksDbRecipeStore::TrimShare(const std::string& tenant, const Digest& key,
                                           uint64_t entry_bytes, uint64_t alias_bytes) {
  if (limits_.tenant_bytes == 0) return absl::OkStatus();
  StoreIndex::Change change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(change,
                     index_.PlanShare(tenant, limits_.tenant_bytes, key, entry_bytes, alias_bytes));
  }
  if (change.removed_aliases.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch = ProtectedBatch();
  AddRemovals(change, &batch);
  RETURN_IF_ERROR(Write(&batch, /*sync=*/true));
  std::vector<StoreIndex::Loss> losses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    losses = ApplyWritten(change);
    share_evictions_ += losses.size();
  }
  Tell(losses, /*of_share=*/true);
  return absl::OkStatus();
}

absl::Status RocksDbRecipeStore::MakeRoom(const std::string& tenant, const Entry& entry) {
  std::lock_guard<std::mutex> writing(write_mutex_);
  RETURN_IF_ERROR(CheckWritable());
  return TrimShare(tenant, entry.manifest.key(), entry.size_bytes(), 0);
}

void RocksDbRecipeStore::Tell(const std::vector<StoreIndex::Loss>& losses, bool of_share) const {
  if (limits_.evicted == nullptr) return;
  for (const StoreIndex::Loss& loss : losses) limits_.evicted({loss.key, loss.tenant, of_share});
}

absl::Status RocksDbRecipeStore::Verify(const Digest& key) {
  ASSIGN_OR_RETURN(const Entry entry, Peek(key));
  return CheckDigests(entry);
}

}  // namespace hpu::store
