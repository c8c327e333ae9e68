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

std::unique_ptr<RecipeStore> MakeReadCaching(std::shared_ptr<RecipeStore> fast,
                                             std::unique_ptr<RecipeStore> slow) {
  auto programs = std::make_unique<ProgramCachingRecipeStore>(fast, std::move(slow));
  return std::make_unique<AliasCachingRecipeStore>(std::move(fast), std::move(programs));
}

absl::StatusOr<Entry> ProgramCachingRecipeStore::Find(const Digest& key, Purpose purpose) {
  if (purpose == Purpose::kVerify) {
    absl::StatusOr<Entry> entry = ForwardingRecipeStore::Find(key, purpose);
    // The store below has quarantined the entry, so the cached value goes as well.
    if (absl::IsDataLoss(entry.status())) fast_->Quarantine(key, "").IgnoreError();
    return entry;
  }
  absl::StatusOr<Entry> cached = fast_->Find(key, purpose);
  if (cached.ok()) {
    if (purpose == Purpose::kUse) NoteUse(key);
    return cached;
  }
  absl::StatusOr<Entry> entry = ForwardingRecipeStore::Find(key, purpose);
  if (entry.ok() && purpose == Purpose::kUse) FillFast(*fast_, *entry);
  return entry;
}

absl::Status ProgramCachingRecipeStore::Put(const Entry& entry) {
  const absl::Status kept = ForwardingRecipeStore::Put(entry);
  FillFast(*fast_, entry);
  return kept;
}

absl::Status ProgramCachingRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  const absl::Status fast = fast_->Quarantine(key, reason);
  RETURN_IF_ERROR(ForwardingRecipeStore::Quarantine(key, reason));
  return fast;
}

absl::StatusOr<std::vector<Digest>> ProgramCachingRecipeStore::CollectGarbage(
    uint64_t max_bytes, uint64_t unused_since) {
  ASSIGN_OR_RETURN(std::vector<Digest> removed,
                   ForwardingRecipeStore::CollectGarbage(max_bytes, unused_since));
  for (const Digest& key : removed) fast_->Quarantine(key, "").IgnoreError();
  return removed;
}

void ProgramCachingRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  fast_->AddCounters(counters);
  ForwardingRecipeStore::AddCounters(counters);
}

absl::StatusOr<AliasRecord> AliasCachingRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> cached = fast_->GetAlias(id);
  if (cached.ok()) return cached;
  ASSIGN_OR_RETURN(AliasRecord alias, ForwardingRecipeStore::GetAlias(id));
  // The fast store refuses the alias if it does not have the entry yet.
  fast_->PutAlias(alias).IgnoreError();
  return alias;
}

absl::Status AliasCachingRecipeStore::PutAlias(const AliasRecord& alias) {
  const absl::Status kept = ForwardingRecipeStore::PutAlias(alias);
  if (absl::Status cached = fast_->PutAlias(alias); cached.ok()) {
    // If the disk is full, only the fast store has the entry, and it has the alias as well now.
    return absl::IsNotFound(kept) ? absl::OkStatus() : kept;
  }
  // An older alias of this id in the fast store is outdated now.
  fast_->DropAlias(alias.id()).IgnoreError();
  return kept;
}

absl::Status AliasCachingRecipeStore::DropAlias(const Digest& id) {
  const absl::Status fast = fast_->DropAlias(id);
  RETURN_IF_ERROR(ForwardingRecipeStore::DropAlias(id));
  return fast;
}

absl::StatusOr<std::vector<Alias>> AliasCachingRecipeStore::AliasesOf(const Digest& key) {
  ASSIGN_OR_RETURN(std::vector<Alias> aliases, ForwardingRecipeStore::AliasesOf(key));
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

absl::StatusOr<std::vector<Manifest>> AliasCachingRecipeStore::List(
    size_t limit, const std::optional<ListPosition>& after) {
  ASSIGN_OR_RETURN(std::vector<Manifest> manifests, ForwardingRecipeStore::List(limit, after));
  const absl::StatusOr<std::vector<Manifest>> cached = fast_->List(limit, after);
  if (cached.ok()) manifests.insert(manifests.end(), cached->begin(), cached->end());
  NewestFirst(manifests, limit);
  return manifests;
}

}  // namespace hpu::store
