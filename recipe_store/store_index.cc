#include "recipe_store/store_index.h"

#include <algorithm>

#include "recipe_store/store_plan.h"

namespace hpu::store {
std::vector<BlobRef> UniqueRefs(std::vector<BlobRef> refs) {
  std::ranges::sort(refs, {}, &BlobRef::digest);
  const auto repeated = std::ranges::unique(refs, {}, &BlobRef::digest);
  refs.erase(repeated.begin(), repeated.end());
  return refs;
}

uint64_t StoreIndex::IndexEntry::bytes() const {
  uint64_t sum = manifest_bytes;
  for (const BlobRef& ref : blobs) sum += ref.size_bytes;
  return sum;
}

std::vector<StoreIndex::Owner>::iterator StoreIndex::IndexEntry::OwnerOf(
    const std::string& tenant) {
  return std::ranges::find_if(owners,
                              [&](const Owner& owner) { return owner.share->first == tenant; });
}

size_t StoreIndex::IndexEntry::AliasesOf(const std::string& tenant) const {
  for (const Owner& owner : owners) {
    if (owner.share->first == tenant) return owner.aliases;
  }
  return 0;
}

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanInsert(const Digest& key,
                                                          uint64_t manifest_bytes,
                                                          const std::vector<BlobRef>& refs) const {
  StorePlan plan(*this);
  RETURN_IF_ERROR(plan.Insert(key, manifest_bytes, refs));
  return plan.TakeChange();
}

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanAlias(const Digest& id,
                                                         const std::string& tenant,
                                                         const Digest& key, uint64_t bytes) const {
  StorePlan plan(*this);
  RETURN_IF_ERROR(plan.Alias(id, tenant, key, bytes));
  return plan.TakeChange();
}

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanShare(const std::string& tenant,
                                                         uint64_t max_bytes, const Digest& key,
                                                         uint64_t entry_bytes,
                                                         uint64_t alias_bytes) const {
  StorePlan plan(*this);
  RETURN_IF_ERROR(plan.Share(tenant, max_bytes, {key, entry_bytes, alias_bytes}));
  return plan.TakeChange();
}

StoreIndex::Change StoreIndex::PlanGarbage(uint64_t max_bytes, uint64_t unused_since_micros) const {
  StorePlan plan(*this);
  plan.CollectGarbage(max_bytes, unused_since_micros);
  return plan.TakeChange();
}

StoreIndex::Change StoreIndex::PlanRemove(const Digest& key) const {
  StorePlan plan(*this);
  plan.Remove(key);
  return plan.TakeChange();
}

void StoreIndex::Release(const IndexEntry& entry) {
  total_bytes_ -= entry.manifest_bytes;
  for (const BlobRef& ref : entry.blobs) {
    const auto blob = blobs_.find(ref.digest);
    if (--blob->second.entries > 0) continue;
    total_bytes_ -= blob->second.size_bytes;
    blobs_.erase(blob);
  }
}

void StoreIndex::Apply(const Change& change) {
  for (const Digest& id : change.removed_aliases) RemoveAlias(id);
  for (const Digest& key : change.removed_keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    Release(found->second);
    uses_.erase(found->second.use);
    by_time_.erase({found->second.created_unix_seconds, key});
    pinned_.erase(key);
    entries_.erase(found);
  }
}

void StoreIndex::Insert(const Digest& key, uint64_t manifest_bytes,
                        const std::vector<BlobRef>& refs, int64_t created_unix_seconds,
                        uint64_t now_micros) {
  const auto [found, is_new] = entries_.try_emplace(key);
  IndexEntry& entry = found->second;
  if (is_new) {
    entry.use = uses_.insert(uses_.end(), key);
  } else {
    Release(entry);
    for (const Owner& owner : entry.owners) owner.share->second.bytes -= entry.bytes();
    by_time_.erase({entry.created_unix_seconds, key});
  }
  Touch(key, now_micros);
  by_time_.insert({created_unix_seconds, key});
  entry.created_unix_seconds = created_unix_seconds;
  entry.manifest_bytes = manifest_bytes;
  entry.blobs = UniqueRefs(refs);
  for (const Owner& owner : entry.owners) owner.share->second.bytes += entry.bytes();
  total_bytes_ += manifest_bytes;
  for (const BlobRef& ref : entry.blobs) {
    IndexBlob& blob = blobs_[ref.digest];
    if (blob.entries++ > 0) continue;
    blob.size_bytes = ref.size_bytes;
    total_bytes_ += ref.size_bytes;
  }
}

void StoreIndex::InsertAlias(const Digest& id, const std::string& tenant, const Digest& key,
                             uint64_t bytes) {
  HPU_CHECK(!alias_keys_.contains(id), "replaced aliases are removed first");
  IndexEntry& entry = entries_.at(key);
  auto owner = entry.OwnerOf(tenant);
  if (owner == entry.owners.end()) {
    const Shares::iterator share = shares_.try_emplace(tenant).first;
    std::list<Digest>& uses = share->second.uses;
    share->second.bytes += entry.bytes();
    owner = entry.owners.insert(owner, {share, uses.insert(uses.end(), key)});
  }
  ++owner->aliases;
  owner->share->second.bytes += bytes;
  entry.aliases.push_back({id, &owner->share->first, bytes});
  alias_keys_[id] = key;
  total_bytes_ += bytes;
}

void StoreIndex::RemoveAlias(const Digest& id) {
  const auto known = alias_keys_.find(id);
  if (known == alias_keys_.end()) return;
  IndexEntry& entry = entries_.at(known->second);
  const auto alias = std::ranges::find(entry.aliases, id, &IndexAlias::id);
  const auto owner = entry.OwnerOf(*alias->tenant);
  Share& share = owner->share->second;
  total_bytes_ -= alias->bytes;
  share.bytes -= alias->bytes;
  entry.aliases.erase(alias);
  alias_keys_.erase(known);
  if (--owner->aliases > 0) return;
  share.bytes -= entry.bytes();
  share.uses.erase(owner->use);
  if (share.uses.empty()) shares_.erase(owner->share);
  entry.owners.erase(owner);
}

void StoreIndex::MoveToEnd(const IndexEntry& entry) {
  uses_.splice(uses_.end(), uses_, entry.use);
  for (const Owner& owner : entry.owners) {
    std::list<Digest>& uses = owner.share->second.uses;
    uses.splice(uses.end(), uses, owner.use);
  }
}

uint64_t StoreIndex::LargestShare() const {
  uint64_t largest = 0;
  for (const auto& [tenant, share] : shares_) largest = std::max(largest, share.bytes);
  return largest;
}

std::vector<std::string> StoreIndex::TenantsOverTheirShare() const {
  std::vector<std::string> tenants;
  if (tenant_bytes_ == 0) return tenants;
  for (const auto& [tenant, share] : shares_) {
    if (share.bytes > tenant_bytes_) tenants.push_back(tenant);
  }
  return tenants;
}

bool StoreIndex::Touch(const Digest& key, uint64_t now_micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  found->second.used_micros = now_micros;
  MoveToEnd(found->second);
  return true;
}

bool StoreIndex::Pin(const Digest& key, bool pinned) {
  if (!entries_.contains(key)) return false;
  if (pinned) {
    pinned_.insert(key);
  } else {
    pinned_.erase(key);
  }
  return true;
}

void StoreIndex::OrderByUse() {
  std::vector<std::pair<uint64_t, const IndexEntry*>> uses;
  uses.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) uses.emplace_back(entry.used_micros, &entry);
  std::ranges::stable_sort(uses, {}, [](const auto& use) { return use.first; });
  for (const auto& [micros, entry] : uses) MoveToEnd(*entry);
}

std::vector<ListPosition> StoreIndex::Page(size_t limit,
                                           const std::optional<ListPosition>& after) const {
  std::vector<ListPosition> page;
  auto at = after ? by_time_.lower_bound(*after) : by_time_.end();
  while (at != by_time_.begin() && page.size() < limit) page.push_back(*--at);
  return page;
}

std::vector<Digest> StoreIndex::AliasesOf(const Digest& key) const {
  std::vector<Digest> ids;
  const auto found = entries_.find(key);
  if (found == entries_.end()) return ids;
  for (const IndexAlias& alias : found->second.aliases) ids.push_back(alias.id);
  return ids;
}

}  // namespace hpu::store
