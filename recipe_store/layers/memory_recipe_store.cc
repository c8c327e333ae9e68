#include "recipe_store/layers/memory_recipe_store.h"

#include "base/clock.h"

namespace hpu::store {

absl::StatusOr<Entry> MemoryRecipeStore::Find(const Digest& key, Purpose purpose) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return NotFound("key ", ToHex(key), " is not in memory");
  if (purpose == Purpose::kUse) {
    index_.Touch(key, MicrosOfEpoch());
    ++hits_;
  }
  Entry entry = found->second;
  lock.unlock();
  if (purpose == Purpose::kVerify) RETURN_IF_ERROR(CheckDigests(entry));
  return entry;
}

absl::Status MemoryRecipeStore::Put(const Entry& entry) {
  const Digest key = entry.manifest.key();
  const uint64_t manifest_bytes = entry.signed_manifest.record.size();
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  std::lock_guard<std::mutex> lock(mutex_);
  ASSIGN_OR_RETURN(const StoreIndex::Change change, index_.PlanInsert(key, manifest_bytes, refs));
  Apply(change);
  evictions_ += change.removed_keys.size();
  index_.Insert(key, manifest_bytes, refs, entry.manifest.created_unix_seconds, MicrosOfEpoch());
  Entry& kept = entries_[key] = entry;
  for (size_t i = 0; i < refs.size(); ++i) {
    // The index counts equal blobs of several entries once, so they are kept once.
    kept.blobs[i] = blobs_.try_emplace(refs[i].digest, entry.blobs[i]).first->second;
  }
  return absl::OkStatus();
}

absl::Status MemoryRecipeStore::MakeRoom(const std::string& tenant, const Entry& entry) {
  if (index_.tenant_bytes() == 0) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(mutex_);
  ASSIGN_OR_RETURN(
      const StoreIndex::Change change,
      index_.PlanShare(tenant, index_.tenant_bytes(), entry.manifest.key(), entry.size_bytes(), 0));
  Apply(change);
  evictions_ += change.removed_keys.size();
  return absl::OkStatus();
}

absl::StatusOr<AliasRecord> MemoryRecipeStore::GetAlias(const Digest& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = aliases_.find(id);
  if (found == aliases_.end()) return NotFound("alias ", ToHex(id), " is not in memory");
  return found->second;
}

absl::Status MemoryRecipeStore::PutAlias(const AliasRecord& alias) {
  const Digest id = alias.id();
  const Digest& key = alias.alias.content_key;
  const std::string& tenant = alias.alias.tenant;
  std::lock_guard<std::mutex> lock(mutex_);
  ASSIGN_OR_RETURN(const StoreIndex::Change change,
                   index_.PlanAlias(id, tenant, key, alias.size_bytes()));
  Apply(change);
  evictions_ += change.removed_keys.size();
  index_.InsertAlias(id, tenant, key, alias.size_bytes());
  aliases_[id] = alias;
  return absl::OkStatus();
}

absl::Status MemoryRecipeStore::DropAlias(const Digest& id) {
  std::lock_guard<std::mutex> lock(mutex_);
  index_.RemoveAlias(id);
  aliases_.erase(id);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Alias>> MemoryRecipeStore::AliasesOf(const Digest& key) {
  std::vector<Alias> aliases;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const Digest& id : index_.AliasesOf(key)) aliases.push_back(aliases_.at(id).alias);
  }
  OldestFirst(aliases);
  return aliases;
}

absl::StatusOr<std::vector<Manifest>> MemoryRecipeStore::List(
    size_t limit, const std::optional<ListPosition>& after) {
  std::vector<Manifest> manifests;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const ListPosition& position : index_.Page(limit == 0 ? SIZE_MAX : limit, after)) {
    manifests.push_back(entries_.at(position.key).manifest);
  }
  return manifests;
}

absl::StatusOr<std::vector<ListPosition>> MemoryRecipeStore::Positions(
    size_t limit, const std::optional<ListPosition>& after) {
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Page(limit == 0 ? SIZE_MAX : limit, after);
}

absl::Status MemoryRecipeStore::Quarantine(const Digest& key, const std::string& /*reason*/) {
  std::lock_guard<std::mutex> lock(mutex_);
  Apply(index_.PlanRemove(key));
  return absl::OkStatus();
}

absl::Status MemoryRecipeStore::Pin(const Digest& key, bool pinned) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (index_.Pin(key, pinned)) return absl::OkStatus();
  return NotFound("key ", ToHex(key), " is not in memory");
}

absl::StatusOr<std::vector<Digest>> MemoryRecipeStore::Pinned() {
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Pinned();
}

absl::StatusOr<std::vector<Digest>> MemoryRecipeStore::CollectGarbage(uint64_t max_bytes,
                                                                      uint64_t unused_since) {
  std::lock_guard<std::mutex> lock(mutex_);
  StoreIndex::Change change = index_.PlanGarbage(max_bytes, unused_since);
  Apply(change);
  evictions_ += change.removed_keys.size();
  return std::move(change.removed_keys);
}

void MemoryRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  std::lock_guard<std::mutex> lock(mutex_);
  counters["memory.bytes"] += index_.total_bytes();
  counters["memory.entries"] += index_.entry_count();
  counters["memory.aliases"] += index_.alias_count();
  counters["memory.hits"] += hits_;
  counters["memory.evictions"] += evictions_;
}

void MemoryRecipeStore::Apply(const StoreIndex::Change& change) {
  index_.Apply(change);
  for (const Digest& key : change.removed_keys) entries_.erase(key);
  for (const Digest& digest : change.dropped_blobs) blobs_.erase(digest);
  for (const Digest& id : change.removed_aliases) aliases_.erase(id);
}

}  // namespace hpu::store
