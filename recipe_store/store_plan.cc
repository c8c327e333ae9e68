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
  // The blobs of the new entry stay even if the entries that hold them now go.
  for (const BlobRef& ref : UniqueRefs(refs)) {
    if (plan.EntriesOf(ref.digest) == 0) plan.total_bytes_ += ref.size_bytes;
    ++plan.added_[ref.digest];
  }
  // The new entry replaces one of its key, whose aliases stay.
  const uint64_t before = EntryBytes(key);
  uint64_t& after = plan.sizes_[key] = manifest_bytes;
  for (const BlobRef& ref : UniqueRefs(refs)) after += ref.size_bytes;
  if (Contains(key)) {
    const StoreIndex::IndexEntry& entry = index_->entries_.at(key);
    plan.Release(entry);
    for (const StoreIndex::Owner& owner : entry.owners) {
      const std::string& tenant = owner.share->first;
      if (NamesOf(key, tenant) == 0) continue;
      plan.shares_[tenant] += static_cast<int64_t>(after) - static_cast<int64_t>(before);
    }
  }
  plan.Evict(index_->max_bytes());
  RETURN_IF_ERROR(plan.CheckSize("entry"));
  *this = std::move(plan);
  return absl::OkStatus();
}

absl::Status StorePlan::Alias(const Digest& id, const std::string& tenant, const Digest& key,
                              uint64_t bytes) {
  if (!Contains(key)) {
    return NotFound("the program ", ToHex(key), " that the alias names is not in the store");
  }
  StorePlan plan = *this;
  plan.kept_.insert(key);
  if (index_->alias_keys_.contains(id)) {
    plan.RemoveAlias(id);
  } else if (static_cast<size_t>(NamesOf(key, tenant)) >= StoreIndex::kMaxAliases) {
    const auto is_oldest = [&](const StoreIndex::IndexAlias& alias) {
      return *alias.tenant == tenant && !aliases_.contains(alias.id);
    };
    plan.TakeOut(key, *std::ranges::find_if(index_->entries_.at(key).aliases, is_oldest));
  }
  const Addition addition{key, plan.EntryBytes(key), bytes};
  // The tenant's share is trimmed before room is made for all, so that a tenant with too much makes
  // it.
  if (index_->tenant_bytes() > 0) {
    RETURN_IF_ERROR(plan.Share(tenant, index_->tenant_bytes(), addition));
  }
  plan.shares_[tenant] += static_cast<int64_t>(plan.ShareWith(tenant, addition)) -
                          static_cast<int64_t>(plan.ShareOf(tenant));
  ++plan.names_[{key, tenant}];
  plan.total_bytes_ += bytes;
  plan.Evict(index_->max_bytes());
  RETURN_IF_ERROR(plan.CheckSize("program and aliases of " + ToHex(key)));
  *this = std::move(plan);
  return absl::OkStatus();
}

absl::Status StorePlan::Share(const std::string& tenant, uint64_t max_bytes,
                              const Addition& addition) {
  StorePlan plan = *this;
  plan.TrimShare(tenant, max_bytes, addition);
  const uint64_t share = plan.ShareWith(tenant, addition);
  if (share > max_bytes) {
    return Error(absl::StatusCode::kResourceExhausted, "the program and what is pinned have ",
                 share, " bytes, the share of tenant ", tenant, " is ", max_bytes);
  }
  *this = std::move(plan);
  return absl::OkStatus();
}

size_t StorePlan::TrimShare(const std::string& tenant, uint64_t max_bytes, const Addition& addition,
                            size_t max_entries) {
  const auto known = index_->shares_.find(tenant);
  if (known == index_->shares_.end()) return 0;
  size_t taken = 0;
  for (const Digest& oldest : known->second.uses) {
    if (taken == max_entries || ShareWith(tenant, addition) <= max_bytes) break;
    if (oldest == addition.key || !MayGo(oldest) || NamesOf(oldest, tenant) == 0) continue;
    const StoreIndex::IndexEntry& entry = index_->entries_.at(oldest);
    for (const StoreIndex::IndexAlias& alias : entry.aliases) {
      if (*alias.tenant == tenant) TakeOut(oldest, alias);
    }
    change_.losses.push_back({oldest, tenant, /*of_share=*/true});
    const bool is_named = std::ranges::any_of(entry.owners, [&](const StoreIndex::Owner& owner) {
      return NamesOf(oldest, owner.share->first) > 0;
    });
    if (!is_named) TakeOut(oldest);
    ++taken;
  }
  return taken;
}

void StorePlan::Remove(const Digest& key) {
  if (Contains(key)) TakeOut(key);
}

void StorePlan::RemoveAlias(const Digest& id) {
  const auto known = index_->alias_keys_.find(id);
  if (known == index_->alias_keys_.end()) return;
  const auto& aliases = index_->entries_.at(known->second).aliases;
  TakeOut(known->second, *std::ranges::find(aliases, id, &StoreIndex::IndexAlias::id));
}

size_t StorePlan::Evict(uint64_t max_bytes, size_t max_entries) {
  size_t taken = 0;
  if (total_bytes_ <= max_bytes) return taken;
  for (const Digest& oldest : index_->uses_) {
    if (total_bytes_ <= max_bytes || taken == max_entries) break;
    if (!MayGo(oldest)) continue;
    NoteLosses(oldest);
    TakeOut(oldest);
    ++taken;
  }
  return taken;
}

size_t StorePlan::CollectGarbage(uint64_t max_bytes, uint64_t unused_since_micros,
                                 size_t max_entries) {
  size_t taken = 0;
  for (const Digest& oldest : index_->uses_) {
    const bool is_unused = index_->entries_.at(oldest).used_micros < unused_since_micros;
    if ((!is_unused && total_bytes_ <= max_bytes) || taken == max_entries) break;
    if (!MayGo(oldest)) continue;
    TakeOut(oldest);
    ++taken;
  }
  return taken;
}

bool StorePlan::MayGo(const Digest& key) const {
  return !kept_.contains(key) && !removed_.contains(key) && !index_->IsPinned(key);
}

void StorePlan::NoteLosses(const Digest& key) {
  bool is_nobodys = true;
  for (const StoreIndex::Owner& owner : index_->entries_.at(key).owners) {
    const std::string& tenant = owner.share->first;
    if (NamesOf(key, tenant) == 0) continue;
    change_.losses.push_back({key, tenant});
    is_nobodys = false;
  }
  if (is_nobodys) change_.losses.push_back({key, ""});
}

bool StorePlan::Contains(const Digest& key) const {
  return index_->entries_.contains(key) && !removed_.contains(key);
}

void StorePlan::TakeOut(const Digest& key) {
  const StoreIndex::IndexEntry& entry = index_->entries_.at(key);
  removed_.insert(key);
  change_.removed_keys.push_back(key);
  Release(entry);
  for (const StoreIndex::IndexAlias& alias : entry.aliases) TakeOut(key, alias);
}

void StorePlan::TakeOut(const Digest& key, const StoreIndex::IndexAlias& alias) {
  if (!aliases_.insert(alias.id).second) return;
  change_.removed_aliases.push_back(alias.id);
  total_bytes_ -= alias.bytes;
  const std::string& tenant = *alias.tenant;
  int64_t& share = shares_[tenant];
  share -= static_cast<int64_t>(alias.bytes);
  --names_[{key, tenant}];
  if (NamesOf(key, tenant) == 0) share -= static_cast<int64_t>(EntryBytes(key));
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

int64_t StorePlan::NamesOf(const Digest& key, const std::string& tenant) const {
  const auto known = index_->entries_.find(key);
  const auto added = names_.find({key, tenant});
  return (known != index_->entries_.end() ? int64_t(known->second.AliasesOf(tenant)) : 0) +
         (added != names_.end() ? added->second : 0);
}

uint64_t StorePlan::EntryBytes(const Digest& key) const {
  if (const auto size = sizes_.find(key); size != sizes_.end()) return size->second;
  const auto known = index_->entries_.find(key);
  return known != index_->entries_.end() ? known->second.bytes() : 0;
}

uint64_t StorePlan::ShareOf(const std::string& tenant) const {
  const auto known = index_->shares_.find(tenant);
  const auto added = shares_.find(tenant);
  const int64_t share = (known != index_->shares_.end() ? int64_t(known->second.bytes) : 0) +
                        (added != shares_.end() ? added->second : 0);
  return static_cast<uint64_t>(share);
}

uint64_t StorePlan::ShareWith(const std::string& tenant, const Addition& addition) const {
  const bool is_named = NamesOf(addition.key, tenant) > 0;
  return ShareOf(tenant) + addition.alias_bytes + (is_named ? 0 : addition.entry_bytes);
}

}  // namespace hpu::store
