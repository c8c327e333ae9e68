// StoreIndex is the bookkeeping of the storing layers: which entries there are, what they weigh,
// which was used longest ago, which are pinned and so not evicted, and which tenants have names for
// them. Blobs shared by entries weigh once and go with their last entry. Aliases weigh and go with
// their entry. The index holds no bytes of blobs. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "recipe_store/signing/manifest.h"

namespace hpu::store {

// Returns each digest once.
std::vector<BlobRef> UniqueRefs(std::vector<BlobRef> refs);

// The first bytes of a digest are as good a hash as any.
struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof(hash));
    return hash;
  }
};

class StoreIndex {
 public:
  // An entry keeps the newest so many aliases of each tenant.
  static constexpr size_t kMaxAliases = 256;

  // A Loss says that a tenant lost an entry for want of room: its names of the entry went, or all
  // of the entry. `tenant` is empty if the entry had no name.
  struct Loss {
    Digest key{};
    std::string tenant;
    bool of_share = false;  // true if the tenant had too much, false if the store was full
  };

  // A Change is what has to go so that something can come in.
  struct Change {
    std::vector<Digest> removed_keys;     // whole entries
    std::vector<Digest> dropped_blobs;    // no entry needs them any more
    std::vector<Digest> removed_aliases;  // by id
    std::vector<Loss> losses;             // by eviction, not by command
  };

  // `tenant_bytes` bounds the share of each tenant; 0 means that nothing does.
  explicit StoreIndex(uint64_t max_bytes, uint64_t tenant_bytes = 0)
      : max_bytes_(max_bytes), tenant_bytes_(tenant_bytes) {}

  // Plans removals that make room for an entry, least recently used first. An entry of that key is
  // replaced, keeps its aliases and stays pinned. RESOURCE_EXHAUSTED: the entry is larger than what
  // pinned entries leave of the store. The index does not change.
  absl::StatusOr<Change> PlanInsert(const Digest& key, uint64_t manifest_bytes,
                                    const std::vector<BlobRef>& refs) const;
  // Plans the same for an alias of the entry `key`, which stays. An alias of that id is replaced.
  // Room is made in the tenant's share first. NOT_FOUND: there is no such entry.
  absl::StatusOr<Change> PlanAlias(const Digest& id, const std::string& tenant, const Digest& key,
                                   uint64_t bytes) const;
  // Plans removals that bring a tenant's share, what its aliases name and they themselves, to at
  // most `max_bytes` when the entry `key` of so many bytes and an alias of it have come in. The
  // tenant loses the names of what it used longest ago, and an entry goes if no other tenant has a
  // name for it. `key`, pinned entries and the names of others stay. RESOURCE_EXHAUSTED: what stays
  // is too large.
  absl::StatusOr<Change> PlanShare(const std::string& tenant, uint64_t max_bytes, const Digest& key,
                                   uint64_t entry_bytes, uint64_t alias_bytes) const;
  // Plans the removal of what was used before `unused_since_micros`, and then of enough to come
  // below `max_bytes`.
  Change PlanGarbage(uint64_t max_bytes, uint64_t unused_since_micros) const;
  // Plans the removal of one entry.
  Change PlanRemove(const Digest& key) const;

  void Apply(const Change& change);
  // Requires Apply of its plan before. The entry becomes the most recently used one, at
  // `now_micros`.
  void Insert(const Digest& key, uint64_t manifest_bytes, const std::vector<BlobRef>& refs,
              int64_t created_unix_seconds, uint64_t now_micros);
  // Sorts the uses by their times, after entries that were used long ago were inserted.
  void OrderByUse();
  // Requires Apply of its plan before, and the entry.
  void InsertAlias(const Digest& id, const std::string& tenant, const Digest& key, uint64_t bytes);
  void RemoveAlias(const Digest& id);
  // Makes the entry the most recently used one. Returns false if it is not there.
  bool Touch(const Digest& key, uint64_t now_micros);
  // Returns false if the entry is not there.
  bool Pin(const Digest& key, bool pinned);
  bool IsPinned(const Digest& key) const { return pinned_.contains(key); }
  std::vector<Digest> Pinned() const { return {pinned_.begin(), pinned_.end()}; }
  // Returns at most `limit` positions of those that come after `after`, newest first.
  std::vector<ListPosition> Page(size_t limit, const std::optional<ListPosition>& after) const;
  // Returns the ids, oldest first.
  std::vector<Digest> AliasesOf(const Digest& key) const;

  bool Contains(const Digest& key) const { return entries_.contains(key); }
  bool ContainsAlias(const Digest& id) const { return alias_keys_.contains(id); }
  bool ContainsBlob(const Digest& digest) const { return blobs_.contains(digest); }
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t max_bytes() const { return max_bytes_; }
  uint64_t tenant_bytes() const { return tenant_bytes_; }
  uint64_t LargestShare() const;
  // Returns the tenants that have more than they may, as when the limit was lowered.
  std::vector<std::string> TenantsOverTheirShare() const;
  size_t entry_count() const { return entries_.size(); }
  size_t blob_count() const { return blobs_.size(); }
  size_t alias_count() const { return alias_keys_.size(); }

 private:
  struct Share {
    uint64_t bytes = 0;      // its entries, each in full, and its aliases
    std::list<Digest> uses;  // its entries, least recently used first
  };
  using Shares = std::map<std::string, Share>;
  struct IndexAlias {
    Digest id{};
    const std::string* tenant = nullptr;  // in shares_
    uint64_t bytes = 0;
  };
  // An Owner is a tenant with aliases of an entry.
  struct Owner {
    Shares::iterator share;
    std::list<Digest>::iterator use;
    uint32_t aliases = 0;
  };
  struct IndexEntry {
    uint64_t manifest_bytes = 0;
    std::vector<BlobRef> blobs;       // each digest once
    std::vector<IndexAlias> aliases;  // oldest first
    std::vector<Owner> owners;
    std::list<Digest>::iterator use;
    uint64_t used_micros = 0;  // since the epoch of the caller's clock
    int64_t created_unix_seconds = 0;

    uint64_t bytes() const;  // counts blobs that other entries share as well
    std::vector<Owner>::iterator OwnerOf(const std::string& tenant);
    size_t AliasesOf(const std::string& tenant) const;
  };
  struct IndexBlob {
    uint64_t size_bytes = 0;
    uint32_t entries = 0;  // that need the blob
  };
  friend class StorePlan;

  // Makes the entry the most recently used one.
  void MoveToEnd(const IndexEntry& entry);
  // Takes manifest and blobs of the entry out of the sums.
  void Release(const IndexEntry& entry);

  const uint64_t max_bytes_;
  const uint64_t tenant_bytes_;
  uint64_t total_bytes_ = 0;
  std::unordered_map<Digest, IndexEntry, DigestHash> entries_;
  std::unordered_map<Digest, IndexBlob, DigestHash> blobs_;
  std::unordered_map<Digest, Digest, DigestHash> alias_keys_;  // id -> the entry that has it
  std::list<Digest> uses_;                                     // least recently used first
  Shares shares_;                                              // by tenant, of those with aliases
  std::set<ListPosition> by_time_;
  std::set<Digest> pinned_;
};

}  // namespace hpu::store
