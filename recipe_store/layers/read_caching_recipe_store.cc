#include "recipe_store/layers/read_caching_recipe_store.h"

#include <set>

#include "base/log.h"

namespace hpu::store {
namespace {

void FillFast(RecipeStore& fast, const Entry& entry) {
  if (absl::Status filled = fast.Put(entry); !filled.ok()) {
    HPU_LOG(kDebug, "entry not cached error=" << ToText(filled));
  }
}

}  // namespace

absl::StatusOr<Entry> ReadCachingRecipeStore::Get(const Digest& key) {
  absl::StatusOr<Entry> cached = fast_->Get(key);
  if (cached.ok()) {
    slow_->NoteUse(key);
    return cached;
  }
  ASSIGN_OR_RETURN(Entry entry, slow_->Get(key));
  FillFast(*fast_, entry);
  return entry;
}

absl::StatusOr<Entry> ReadCachingRecipeStore::Peek(const Digest& key) {
  absl::StatusOr<Entry> cached = fast_->Peek(key);
  return cached.ok() ? std::move(cached) : slow_->Peek(key);
}

absl::Status ReadCachingRecipeStore::Put(const Entry& entry) {
  const absl::Status kept = slow_->Put(entry);
  FillFast(*fast_, entry);
  return kept;
}

absl::StatusOr<AliasRecord> ReadCachingRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> cached = fast_->GetAlias(id);
  if (cached.ok()) return cached;
  ASSIGN_OR_RETURN(AliasRecord alias, slow_->GetAlias(id));
  // Where the entry is not cached yet, its alias is neither.
  fast_->PutAlias(alias).IgnoreError();
  return alias;
}

absl::Status ReadCachingRecipeStore::PutAlias(const AliasRecord& alias) {
  const absl::Status kept = slow_->PutAlias(alias);
  if (absl::Status cached = fast_->PutAlias(alias); cached.ok()) {
    // An entry that only the cache has, because the disk is full, has its alias there too.
    return absl::IsNotFound(kept) ? absl::OkStatus() : kept;
  }
  // What the cache has under this id is of yesterday.
  fast_->DropAlias(alias.id()).IgnoreError();
  return kept;
}

absl::Status ReadCachingRecipeStore::DropAlias(const Digest& id) {
  const absl::Status fast = fast_->DropAlias(id);
  RETURN_IF_ERROR(slow_->DropAlias(id));
  return fast;
}

absl::StatusOr<std::vector<Alias>> ReadCachingRecipeStore::AliasesOf(const Digest& key) {
  ASSIGN_OR_RETURN(std::vector<Alias> aliases, slow_->AliasesOf(key));
  // What the slow store could not keep.
  const absl::StatusOr<std::vector<Alias>> cached = fast_->AliasesOf(key);
  if (cached.ok()) {
    std::set<Digest> known;
    for (const Alias& alias : aliases) known.insert(AliasId(alias.tenant, alias.front_end_key));
    for (const Alias& alias : *cached) {
      if (!known.contains(AliasId(alias.tenant, alias.front_end_key))) aliases.push_back(alias);
    }
  }
  OldestFirst(aliases);
  return aliases;
}

absl::StatusOr<std::vector<Manifest>> ReadCachingRecipeStore::List(
    size_t limit, const std::optional<ListPosition>& after) {
  ASSIGN_OR_RETURN(std::vector<Manifest> manifests, slow_->List(limit, after));
  // What the slow store could not keep.
  const absl::StatusOr<std::vector<Manifest>> cached = fast_->List(limit, after);
  if (cached.ok()) manifests.insert(manifests.end(), cached->begin(), cached->end());
  NewestFirst(manifests, limit);
  return manifests;
}

absl::Status ReadCachingRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  const absl::Status fast = fast_->Quarantine(key, reason);
  RETURN_IF_ERROR(slow_->Quarantine(key, reason));
  return fast;
}

absl::Status ReadCachingRecipeStore::Pin(const Digest& key, bool pinned) {
  return slow_->Pin(key, pinned);
}

absl::StatusOr<std::vector<Digest>> ReadCachingRecipeStore::Pinned() { return slow_->Pinned(); }

absl::StatusOr<std::vector<Digest>> ReadCachingRecipeStore::CollectGarbage(uint64_t max_bytes,
                                                                           uint64_t unused_since) {
  ASSIGN_OR_RETURN(std::vector<Digest> removed, slow_->CollectGarbage(max_bytes, unused_since));
  for (const Digest& key : removed) fast_->Quarantine(key, "").IgnoreError();
  return removed;
}

absl::Status ReadCachingRecipeStore::Verify(const Digest& key) {
  const absl::Status verdict = slow_->Verify(key);
  // What was quarantined there is of no use here.
  if (absl::IsDataLoss(verdict)) fast_->Quarantine(key, "").IgnoreError();
  return verdict;
}

absl::Status ReadCachingRecipeStore::Flush() {
  const absl::Status fast = fast_->Flush();
  RETURN_IF_ERROR(slow_->Flush());
  return fast;
}

void ReadCachingRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  fast_->AddCounters(counters);
  slow_->AddCounters(counters);
}

}  // namespace hpu::store
