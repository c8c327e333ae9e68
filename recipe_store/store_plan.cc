#include "recipe_store/store_plan.h"

#include <algorithm>
#include <utility>

namespace hpu::store {

absl::Status StorePlan::CheckSize(const std::string& what) const {
  if (total_bytes_ <= index_->max_bytes()) return absl::OkStatus();
  return Error(absl::StatusCode::kResourceExhausted, what, " and pinned programs have ",
               total_bytes_, " bytes, the whole store is limited to ", index_->max_bytes());
}

absl::Status StorePlan::Insert(const Digest& key, uint64_t manifest_bytes,
                               const std::vector<BlobRef>& refs) {
  StorePlan plan = *this;
  plan.kept_.insert(key);
  plan.total_bytes_ += manifest_bytes;
  // Blobs of the entry that is to come in stay even if the entries that hold them now go.
  for (const BlobRef& ref : UniqueRefs(refs)) {
    if (plan.EntriesOf(ref.digest) == 0) plan.total_bytes_ += ref.size_bytes;
    ++plan.added_[ref.digest];
  }
  // An entry that another one of its key follows: its aliases stay.
  if (Contains(key)) plan.Release(index_->entries_.at(key));
  plan.Evict(index_->max_bytes());
  RETURN_IF_ERROR(plan.CheckSize("entry"));
  *this = std::move(plan);
  return absl::OkStatus();
}

absl::Status StorePlan::Alias(const Digest& id, const Digest& key, uint64_t bytes) {
  if (!Contains(key)) {
    return NotFound("the program ", ToHex(key), " that the alias names is not in the store");
  }
  StorePlan plan = *this;
  plan.kept_.insert(key);
  plan.total_bytes_ += bytes;
  const std::vector<StoreIndex::IndexAlias>& own = index_->entries_.at(key).aliases;
  if (index_->alias_keys_.contains(id)) {
    plan.RemoveAlias(id);
  } else if (own.size() >= StoreIndex::kMaxAliases) {
    plan.TakeOut(own.front());
  }
  plan.Evict(index_->max_bytes());
  RETURN_IF_ERROR(plan.CheckSize("program and aliases of " + ToHex(key)));
  *this = std::move(plan);
  return absl::OkStatus();
}

void StorePlan::Remove(const Digest& key) {
  if (Contains(key)) TakeOut(key);
}

void StorePlan::RemoveAlias(const Digest& id) {
  const auto known = index_->alias_keys_.find(id);
  if (known == index_->alias_keys_.end()) return;
  const auto& aliases = index_->entries_.at(known->second).aliases;
  TakeOut(*std::ranges::find(aliases, id, &StoreIndex::IndexAlias::id));
}

void StorePlan::Evict(uint64_t max_bytes, size_t max_entries) {
  CollectGarbage(max_bytes, 0, max_entries);
}

void StorePlan::CollectGarbage(uint64_t max_bytes, uint64_t unused_since_micros,
                               size_t max_entries) {
  if (unused_since_micros == 0 && total_bytes_ <= max_bytes) return;
  for (const Digest& oldest : index_->uses_) {
    const bool unused =
        unused_since_micros > 0 && index_->entries_.at(oldest).used_micros < unused_since_micros;
    if ((!unused && total_bytes_ <= max_bytes) || max_entries == 0) return;
    if (kept_.contains(oldest) || removed_.contains(oldest) || index_->IsPinned(oldest)) continue;
    TakeOut(oldest);
    --max_entries;
  }
}

bool StorePlan::Contains(const Digest& key) const {
  return index_->entries_.contains(key) && !removed_.contains(key);
}

void StorePlan::TakeOut(const Digest& key) {
  const StoreIndex::IndexEntry& entry = index_->entries_.at(key);
  removed_.insert(key);
  change_.removed_keys.push_back(key);
  Release(entry);
  for (const StoreIndex::IndexAlias& alias : entry.aliases) TakeOut(alias);
}

void StorePlan::TakeOut(const StoreIndex::IndexAlias& alias) {
  if (!aliases_.insert(alias.id).second) return;
  change_.removed_aliases.push_back(alias.id);
  total_bytes_ -= alias.bytes;
}

void StorePlan::Release(const StoreIndex::IndexEntry& entry) {
  total_bytes_ -= entry.manifest_bytes;
  for (const BlobRef& ref : entry.blobs) {
    --added_[ref.digest];
    if (EntriesOf(ref.digest) > 0) continue;
    total_bytes_ -= ref.size_bytes;
    change_.dropped_blobs.push_back(ref.digest);
  }
}

int64_t StorePlan::EntriesOf(const Digest& blob) const {
  const auto known = index_->blobs_.find(blob);
  const auto added = added_.find(blob);
  return (known != index_->blobs_.end() ? int64_t{known->second.entries} : 0) +
         (added != added_.end() ? added->second : 0);
}

}  // namespace hpu::store
