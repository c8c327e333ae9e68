// Bookkeeping that the storing layers share: which entries there are, what they weigh, which was
// used longest ago. Blobs shared by entries weigh once and go with their last entry. Not
// thread-safe; holds no bytes of blobs.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "recipe_store/recipe_store.h"

namespace hpu::store {

class StoreIndex {
 public:
  // What has to happen so that an entry can come in.
  struct Change {
    std::vector<Digest> removed_keys;   // evicted, and the replaced entry if there was one
    std::vector<Digest> dropped_blobs;  // no entry needs them any more
    uint64_t evicted = 0;               // removed_keys without the replaced one
  };

  explicit StoreIndex(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Removals that make room for `entry`, least recently used first. RESOURCE_EXHAUSTED if it is
  // larger than the whole store. Changes nothing.
  absl::StatusOr<Change> PlanInsert(const Digest& key, uint64_t manifest_bytes,
                                    const std::vector<BlobRef>& refs) const;
  // The same for coming below the limit with what is there.
  Change PlanTrim() const;
  // The same for taking one entry out.
  Change PlanRemove(const Digest& key) const;

  // Removes `change.removed_keys`.
  void Apply(const Change& change);
  // The key must not be there. The entry becomes the most recently used one.
  void Insert(const Digest& key, uint64_t manifest_bytes, const std::vector<BlobRef>& refs);
  // Makes the entry the most recently used one; false if it is not there.
  bool Touch(const Digest& key);

  bool Contains(const Digest& key) const { return entries_.contains(key); }
  bool ContainsBlob(const Digest& digest) const { return blobs_.contains(digest); }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t max_bytes() const { return max_bytes_; }
  size_t entry_count() const { return entries_.size(); }
  size_t blob_count() const { return blobs_.size(); }

 private:
  struct IndexEntry {
    uint64_t manifest_bytes = 0;
    std::vector<BlobRef> blobs;  // each digest once
    std::list<Digest>::iterator use;
  };
  struct IndexBlob {
    uint64_t size_bytes = 0;
    uint32_t entries = 0;  // that need it
  };
  class Plan;

  // Removes least recently used entries other than `kept` on paper until the limit holds.
  void Evict(const Digest* kept, Plan& plan) const;

  const uint64_t max_bytes_;
  uint64_t total_bytes_ = 0;
  std::map<Digest, IndexEntry> entries_;
  std::map<Digest, IndexBlob> blobs_;
  std::list<Digest> uses_;  // least recently used first
};

}  // namespace hpu::store
