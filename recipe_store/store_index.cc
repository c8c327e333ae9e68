#include "recipe_store/store_index.h"

#include <algorithm>

namespace hpu::store {
namespace {

std::vector<BlobRef> Unique(std::vector<BlobRef> refs) {
  std::ranges::sort(refs, {}, &BlobRef::digest);
  const auto repeated = std::ranges::unique(refs, {}, &BlobRef::digest);
  refs.erase(repeated.begin(), repeated.end());
  return refs;
}

}  // namespace

// Entries taken out on paper: blob counts and the total as they would be.
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
  void Remove(const Digest& key) {
    const IndexEntry& entry = index_.entries_.at(key);
    change_.removed_keys.push_back(key);
    total_bytes_ -= entry.manifest_bytes;
    for (const BlobRef& ref : entry.blobs) {
      const int64_t left = --added_[ref.digest] + index_.blobs_.at(ref.digest).entries;
      if (left > 0) continue;
      total_bytes_ -= ref.size_bytes;
      change_.dropped_blobs.push_back(ref.digest);
    }
  }
  uint64_t total_bytes() const { return total_bytes_; }
  Change& change() { return change_; }

 private:
  const StoreIndex& index_;
  uint64_t total_bytes_;
  std::map<Digest, int64_t> added_;  // difference to the index's entry counts
  Change change_;
};

absl::StatusOr<StoreIndex::Change> StoreIndex::PlanInsert(const Digest& key,
                                                          uint64_t manifest_bytes,
                                                          const std::vector<BlobRef>& refs) const {
  uint64_t own_bytes = manifest_bytes;
  for (const BlobRef& ref : Unique(refs)) own_bytes += ref.size_bytes;
  if (own_bytes > max_bytes_) {
    return Error(absl::StatusCode::kResourceExhausted, "the entry has ", own_bytes,
                 " bytes, the whole store is limited to ", max_bytes_);
  }
  Plan plan(*this);
  plan.Keep(refs, manifest_bytes);
  if (entries_.contains(key)) plan.Remove(key);
  Evict(&key, plan);
  return std::move(plan.change());
}

StoreIndex::Change StoreIndex::PlanTrim() const {
  Plan plan(*this);
  Evict(nullptr, plan);
  return std::move(plan.change());
}

void StoreIndex::Evict(const Digest* kept, Plan& plan) const {
  for (const Digest& oldest : uses_) {
    if (plan.total_bytes() <= max_bytes_) return;
    if (kept != nullptr && oldest == *kept) continue;
    plan.Remove(oldest);
    ++plan.change().evicted;
  }
}

StoreIndex::Change StoreIndex::PlanRemove(const Digest& key) const {
  Plan plan(*this);
  if (entries_.contains(key)) plan.Remove(key);
  return std::move(plan.change());
}

void StoreIndex::Apply(const Change& change) {
  for (const Digest& key : change.removed_keys) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    total_bytes_ -= found->second.manifest_bytes;
    for (const BlobRef& ref : found->second.blobs) {
      const auto blob = blobs_.find(ref.digest);
      if (--blob->second.entries > 0) continue;
      total_bytes_ -= blob->second.size_bytes;
      blobs_.erase(blob);
    }
    uses_.erase(found->second.use);
    entries_.erase(found);
  }
}

void StoreIndex::Insert(const Digest& key, uint64_t manifest_bytes,
                        const std::vector<BlobRef>& refs) {
  HPU_CHECK(!entries_.contains(key), "replaced entries are removed first");
  IndexEntry& entry = entries_[key];
  entry.manifest_bytes = manifest_bytes;
  entry.blobs = Unique(refs);
  entry.use = uses_.insert(uses_.end(), key);
  total_bytes_ += manifest_bytes;
  for (const BlobRef& ref : entry.blobs) {
    IndexBlob& blob = blobs_[ref.digest];
    if (blob.entries++ > 0) continue;
    blob.size_bytes = ref.size_bytes;
    total_bytes_ += ref.size_bytes;
  }
}

bool StoreIndex::Touch(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return false;
  uses_.splice(uses_.end(), uses_, found->second.use);
  return true;
}

}  // namespace hpu::store
