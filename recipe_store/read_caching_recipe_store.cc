#include "recipe_store/read_caching_recipe_store.h"

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
  if (cached.ok()) return cached;
  ASSIGN_OR_RETURN(Entry entry, slow_->Get(key));
  FillFast(*fast_, entry);
  return entry;
}

absl::Status ReadCachingRecipeStore::Put(const Entry& entry) {
  const absl::Status kept = slow_->Put(entry);
  FillFast(*fast_, entry);
  return kept;
}

absl::StatusOr<std::vector<bool>> ReadCachingRecipeStore::Contains(std::span<const Digest> keys) {
  ASSIGN_OR_RETURN(std::vector<bool> found, slow_->Contains(keys));
  const absl::StatusOr<std::vector<bool>> cached = fast_->Contains(keys);
  if (!cached.ok()) return found;
  for (size_t i = 0; i < keys.size(); ++i) found[i] = found[i] || (*cached)[i];
  return found;
}

absl::StatusOr<Blob> ReadCachingRecipeStore::GetBlob(const Digest& digest) {
  absl::StatusOr<Blob> cached = fast_->GetBlob(digest);
  if (cached.ok()) return cached;
  return slow_->GetBlob(digest);
}

absl::StatusOr<std::vector<Manifest>> ReadCachingRecipeStore::List(size_t limit) {
  ASSIGN_OR_RETURN(std::vector<Manifest> manifests, slow_->List(0));
  // What the slow store could not keep.
  const absl::StatusOr<std::vector<Manifest>> cached = fast_->List(0);
  if (cached.ok()) {
    std::set<Digest> known;
    for (const Manifest& manifest : manifests) known.insert(manifest.key);
    for (const Manifest& manifest : *cached) {
      if (!known.contains(manifest.key)) manifests.push_back(manifest);
    }
  }
  NewestFirst(manifests, limit);
  return manifests;
}

absl::Status ReadCachingRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  const absl::Status fast = fast_->Quarantine(key, reason);
  RETURN_IF_ERROR(slow_->Quarantine(key, reason));
  return fast;
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
