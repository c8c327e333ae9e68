// Bookkeeping that the storing layers share: which entries there are, what they weigh, which was
// used longest ago, which are pinned and so not evicted, which tenants have names for them. Blobs
// shared by entries weigh once and go with their last entry; aliases weigh and go with theirs. Not
// thread-safe; holds no bytes of blobs.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "recipe_store/manifest.h"

namespace hpu::store {

class StoreIndex {
 public:
  // An entry keeps the newest so many of each tenant.
  static constexpr size_t kMaxAliases = 256;

  // What has to go so that something can come in.
  struct Change {
    std::vector<Digest> removed_keys;     // whole entries
    std::vector<Digest> dropped_blobs;    // no entry needs them any more
    std::vector<Digest> removed_aliases;  // by id
  };

  // That a tenant has an entry no longer: its names went, or all of it. Nobody's, if it had no
  // name.
  struct Loss {
    Digest key{};
    std::string tenant;
  };

  explicit StoreIndex(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // Removals that make room for an entry, least recently used first; an entry of that key is
  // replaced, keeps its aliases and stays pinned. RESOURCE_EXHAUSTED if it is larger than what
  // pinned entries leave of the store. Changes nothing.
  absl::StatusOr<Change> PlanInsert(const Digest& key, uint64_t manifest_bytes,
                                    const std::vector<BlobRef>& refs) const;
  // The same for an alias of the entry `key`, which stays; an alias of that id is replaced.
  // NOT_FOUND if there is no such entry.
  absl::StatusOr<Change> PlanAlias(const Digest& id, const std::string& tenant, const Digest& key,
                                   uint64_t bytes) const;
  // Removals that bring a tenant's share, what its aliases name and they themselves, to at most
  // `max_bytes` when the entry `key` of so many bytes and an alias of it have come in: it loses the
  // names of what was used longest ago, and what nobody else has a name for goes. Never touches
  // `key`, pinned entries, or others' names. RESOURCE_EXHAUSTED: what stays is too large.
  absl::StatusOr<Change> PlanShare(const std::string& tenant, uint64_t max_bytes, const Digest& key,
                                   uint64_t entry_bytes, uint64_t alias_bytes) const;
  // The same for coming below the limit with what is there.
  Change PlanTrim() const;
  // The same for what was used before `unused_since_micros`, and then for coming below `max_bytes`.
  Change PlanGarbage(uint64_t max_bytes, uint64_t unused_since_micros) const;
  // The same for taking one entry out.
  Change PlanRemove(const Digest& key) const;

  // What the change takes from whom; before Apply.
  std::vector<Loss> Losses(const Change& change) const;

  void Apply(const Change& change);
  // After Apply of its plan. The entry becomes the most recently used one, at `now_micros`.
  void Insert(const Digest& key, uint64_t manifest_bytes, const std::vector<BlobRef>& refs,
              uint64_t now_micros);
  // After Apply of its plan; the entry must be there.
  void InsertAlias(const Digest& id, const std::string& tenant, const Digest& key, uint64_t bytes);
  void RemoveAlias(const Digest& id);
  // Makes the entry the most recently used one; false if it is not there.
  bool Touch(const Digest& key, uint64_t now_micros);
  // False if it is not there.
  bool Pin(const Digest& key, bool pinned);
  bool IsPinned(const Digest& key) const;
  std::vector<Digest> Pinned() const;
  std::vector<Digest> Keys() const { return {uses_.begin(), uses_.end()}; }

  bool Contains(const Digest& key) const { return entries_.contains(key); }
  bool ContainsAlias(const Digest& id) const { return alias_keys_.contains(id); }
  bool ContainsBlob(const Digest& digest) const { return blobs_.contains(digest); }
  // Of manifest and blobs, wherever else they are counted; 0 if it is not there.
  uint64_t EntryBytes(const Digest& key) const;
  uint64_t LargestShare() const;
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t max_bytes() const { return max_bytes_; }
  size_t entry_count() const { return entries_.size(); }
  size_t blob_count() const { return blobs_.size(); }
  size_t alias_count() const { return alias_keys_.size(); }

 private:
  struct IndexAlias {
    Digest id{};
    std::string tenant;
    uint64_t bytes = 0;
  };
  struct IndexEntry {
    uint64_t manifest_bytes = 0;
    std::vector<BlobRef> blobs;       // each digest once
    std::vector<IndexAlias> aliases;  // oldest first
    std::list<Digest>::iterator use;
    uint64_t used_micros = 0;  // since the epoch of whoever says it
    bool pinned = false;

    uint64_t bytes() const;
    bool IsNamedBy(const std::string& tenant) const;
    std::vector<std::string> Tenants() const;
  };
  struct IndexBlob {
    uint64_t size_bytes = 0;
    uint32_t entries = 0;  // that need it
  };
  class Plan;

  // Removes least recently used entries other than `kept` on paper until `max_bytes` holds.
  void Evict(const Digest* kept, uint64_t max_bytes, Plan& plan) const;
  // Takes manifest and blobs of the entry out of the sums.
  void Release(const IndexEntry& entry);

  const uint64_t max_bytes_;
  uint64_t total_bytes_ = 0;
  std::map<Digest, IndexEntry> entries_;
  std::map<Digest, IndexBlob> blobs_;
  std::map<Digest, Digest> alias_keys_;     // id -> the entry that has it
  std::list<Digest> uses_;                  // least recently used first
  std::map<std::string, uint64_t> shares_;  // by tenant: its entries, each in full, and its aliases
};

}  // namespace hpu::store
