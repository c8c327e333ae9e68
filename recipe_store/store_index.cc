#include "recipe_store/store_index.h"

#include <algorithm>
#include <set>

namespace hpu::store {
namespace {

std::vector<BlobRef> Unique(std::vector<BlobRef> refs) {
  std::ranges::sort(refs, {}, &BlobRef::digest);
  const auto repeated = std::ranges::unique(refs, {}, &BlobRef::digest);
  refs.erase(repeated.begin(), repeated.end());
  return refs;
}

}  // namespace

uint64_t StoreIndex::IndexEntry::bytes() const {
  uint64_t sum = manifest_bytes;
  for (const BlobRef& ref : blobs) sum += ref.size_bytes;
  return sum;
}

bool StoreIndex::IndexEntry::IsNamedBy(const std::string& tenant) const {
  return std::ranges::find(aliases, tenant, &IndexAlias::tenant) != aliases.end();
}

std::vector<std::string> StoreIndex::IndexEntry::Tenants() const {
  std::set<std::string> tenants;
  for (const IndexAlias& alias : aliases) tenants.insert(alias.tenant);
  return {tenants.begin(), tenants.end()};
}

// Entries and aliases taken out on paper: blob counts and the total as they would be.
class StoreIndex::Plan {
 public:
  explicit Plan(const StoreIndex& index) : index_(index), total_bytes_(index.total_bytes_) {}

  // Blobs of the entry that is to come in stay even if the entries that hold them now go.
  void Keep(const std::vector<BlobRef>& refs, uint64_t manifest_bytes) {
    total_bytes_ += manifest_bytes;
    for (const BlobRef& ref : Unique(refs)) {
      if (!index_.blobs_.contains(ref.digest)) total_bytes_ += ref.size_bytes;
      ++added_[ref.digest];
    }
  }
  void KeepAlias(uint64_t bytes) { total_bytes_ += bytes; }
  // An entry that another one of its key follows: its aliases stay.
  void Replace(const Digest& key) { Release(index_.entries_.at(key)); }
  void Remove(const Digest& key) {
    const IndexEntry& entry = index_.entries_.at(key);
    change_.removed_keys.push_back(key);
    Release(entry);
    for (const IndexAlias& alias : entry.aliases) RemoveAlias(alias);
  }
  void RemoveAlias(const IndexAlias& alias) {
    if (!aliases_.insert(alias.id).second) return;
    change_.removed_aliases.push_back(alias.id);
    total_bytes_ -= alias.bytes;
  }
  uint64_t total_bytes() const { return total_bytes_; }
  Change& change() { return change_; }

 private:
  void Release(const IndexEntry& entry) {
    total_bytes_ -= entry.manifest_bytes;
    for (const BlobRef& ref : entry.blobs) {
      const int64_t left = --added_[ref.digest] + index_.blobs_.at(ref.digest).entries;
      if (left > 0) continue;
      total_bytes_ -= ref.size_bytes;
      change_.dropped_blobs.push_back(ref.digest);
    }
  }

  const StoreIndex& index_;
  uint64_t total_bytes_;
  std::set<Digest> aliases_;         // that are removed
  std::map<Digest, int64_t> added_;  // difference to the index's entry counts
  Change change_;
};

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanInsert(const Digest& key,
                                                          uint64_t manifest_bytes,
                                                          const std::vector<BlobRef>& refs) const {
  Plan plan(*this);
  plan.Keep(refs, manifest_bytes);
  if (entries_.contains(key)) plan.Replace(key);
  Evict(&key, max_bytes_, plan);
  if (plan.total_bytes() > max_bytes_) {
    return Error(absl::StatusCode::kResourceExhausted, "entry and pinned programs have ",
                 plan.total_bytes(), " bytes, the whole store is limited to ", max_bytes_);
  }
  return std::move(plan.change());
}

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanAlias(const Digest& id,
                                                         const std::string& tenant,
                                                         const Digest& key, uint64_t bytes) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) {
    return NotFound("the program ", ToHex(key), " that the alias names is not in the store");
  }
  Plan plan(*this);
  plan.KeepAlias(bytes);
  if (const auto known = alias_keys_.find(id); known != alias_keys_.end()) {
    const std::vector<IndexAlias>& aliases = entries_.at(known->second).aliases;
    plan.RemoveAlias(*std::ranges::find(aliases, id, &IndexAlias::id));
  } else {
    const std::vector<IndexAlias>& aliases = entry->second.aliases;
    const auto count = std::ranges::count(aliases, tenant, &IndexAlias::tenant);
    if (static_cast<size_t>(count) >= kMaxAliases) {
      plan.RemoveAlias(*std::ranges::find(aliases, tenant, &IndexAlias::tenant));
    }
  }
  Evict(&key, max_bytes_, plan);
  if (plan.total_bytes() > max_bytes_) {
    return Error(absl::StatusCode::kResourceExhausted, "program and aliases of ", ToHex(key),
                 " and pinned programs have ", plan.total_bytes(),
                 " bytes, the whole store is limited to ", max_bytes_);
  }
  return std::move(plan.change());
}

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanShare(const std::string& tenant,
                                                         uint64_t max_bytes, const Digest& key,
                                                         uint64_t entry_bytes,
                                                         uint64_t alias_bytes) const {
  Plan plan(*this);
  const auto known = shares_.find(tenant);
  uint64_t share = (known == shares_.end() ? 0 : known->second) + alias_bytes;
  const auto named = entries_.find(key);
  if (named == entries_.end() || !named->second.IsNamedBy(tenant)) share += entry_bytes;
  for (const Digest& oldest : uses_) {
    if (share <= max_bytes) break;
    const IndexEntry& entry = entries_.at(oldest);
    if (oldest == key || entry.pinned || !entry.IsNamedBy(tenant)) continue;
    share -= entry.bytes();
    for (const IndexAlias& alias : entry.aliases) {
      if (alias.tenant != tenant) continue;
      share -= alias.bytes;
      plan.RemoveAlias(alias);
    }
    if (entry.Tenants().size() == 1) plan.Remove(oldest);
  }
  if (share <= max_bytes) return std::move(plan.change());
  return Error(absl::StatusCode::kResourceExhausted, "the program and what is pinned have ", share,
               " bytes, the share of tenant ", tenant, " is ", max_bytes);
}

std::vector<StoreIndex::Loss> StoreIndex::Losses(const Change& change) const {
  std::set<std::pair<Digest, std::string>> losses;
  for (const Digest& key : change.removed_keys) {
    const std::vector<std::string> tenants = entries_.at(key).Tenants();
    if (tenants.empty()) losses.emplace(key, "");
    for (const std::string& tenant : tenants) losses.emplace(key, tenant);
  }
  // Where an alias of many went, the tenant has the entry still.
  std::map<std::pair<Digest, std::string>, size_t> gone;
  for (const Digest& id : change.removed_aliases) {
    const Digest& key = alias_keys_.at(id);
    const std::vector<IndexAlias>& aliases = entries_.at(key).aliases;
    const std::string& tenant = std::ranges::find(aliases, id, &IndexAlias::id)->tenant;
    const auto count = std::ranges::count(aliases, tenant, &IndexAlias::tenant);
    if (++gone[{key, tenant}] == static_cast<size_t>(count)) losses.emplace(key, tenant);
  }
  std::vector<Loss> found;
  for (const auto& [key, tenant] : losses) found.push_back({key, tenant});
  return found;
}

StoreIndex::Change StoreIndex::PlanTrim() const {
  Plan plan(*this);
  Evict(nullptr, max_bytes_, plan);
  return std::move(plan.change());
}

StoreIndex::Change StoreIndex::PlanGarbage(uint64_t max_bytes, uint64_t unused_since_micros) const {
  Plan plan(*this);
  for (const Digest& oldest : uses_) {
    const IndexEntry& entry = entries_.at(oldest);
    if (entry.used_micros >= unused_since_micros && plan.total_bytes() <= max_bytes) break;
    if (!entry.pinned) plan.Remove(oldest);
  }
  return std::move(plan.change());
}

void StoreIndex::Evict(const Digest* kept, uint64_t max_bytes, Plan& plan) const {
  for (const Digest& oldest : uses_) {
    if (plan.total_bytes() <= max_bytes) return;
    if ((kept == nullptr || oldest != *kept) && !entries_.at(oldest).pinned) plan.Remove(oldest);
  }
}

StoreIndex::Change StoreIndex::PlanRemove(const Digest& key) const {
  Plan plan(*this);
  if (entries_.contains(key)) plan.Remove(key);
  return std::move(plan.change());
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
    entries_.erase(found);
  }
}

void StoreIndex::Insert(const Digest& key, uint64_t manifest_bytes,
                        const std::vector<BlobRef>& refs, uint64_t now_micros) {
  const auto [found, is_new] = entries_.try_emplace(key);
  IndexEntry& entry = found->second;
  if (is_new) {
    entry.use = uses_.insert(uses_.end(), key);
  } else {
    Release(entry);
    for (const std::string& tenant : entry.Tenants()) shares_.at(tenant) -= entry.bytes();
  }
  Touch(key, now_micros);
  entry.manifest_bytes = manifest_bytes;
  entry.blobs = Unique(refs);
  for (const std::string& tenant : entry.Tenants()) shares_.at(tenant) += entry.bytes();
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
  shares_[tenant] += bytes + (entry.IsNamedBy(tenant) ? 0 : entry.bytes());
  entry.aliases.push_back({id, tenant, bytes});
  alias_keys_[id] = key;
  total_bytes_ += bytes;
}

void StoreIndex::RemoveAlias(const Digest& id) {
  const auto known = alias_keys_.find(id);
  if (known == alias_keys_.end()) return;
  IndexEntry& entry = entries_.at(known->second);
  const auto alias = std::ranges::find(entry.aliases, id, &IndexAlias::id);
  const auto share = shares_.find(alias->tenant);
  total_bytes_ -= alias->bytes;
  share->second -= alias->bytes;
  entry.aliases.erase(alias);
  if (!entry.IsNamedBy(share->first)) share->second -= entry.bytes();
  if (share->second == 0) shares_.erase(share);
  alias_keys_.erase(known);
}

bool StoreIndex::Touch(const Digest& key, uint64_t now_micros) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  found->second.used_micros = now_micros;
  uses_.splice(uses_.end(), uses_, found->second.use);
  return true;
}

uint64_t StoreIndex::EntryBytes(const Digest& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? 0 : found->second.bytes();
}

uint64_t StoreIndex::LargestShare() const {
  uint64_t largest = 0;
  for (const auto& [tenant, bytes] : shares_) largest = std::max(largest, bytes);
  return largest;
}

bool StoreIndex::Pin(const Digest& key, bool pinned) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  found->second.pinned = pinned;
  return true;
}

bool StoreIndex::IsPinned(const Digest& key) const {
  const auto found = entries_.find(key);
  return found != entries_.end() && found->second.pinned;
}

std::vector<Digest> StoreIndex::Pinned() const {
  std::vector<Digest> pinned;
  for (const auto& [key, entry] : entries_) {
    if (entry.pinned) pinned.push_back(key);
  }
  return pinned;
}

}  // namespace hpu::store
