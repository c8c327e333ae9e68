// A StorePlan plans changes to a StoreIndex: what several writes that are filed together add and
// evict. Each write sees those before it, while the index stays as it is until they are written.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "recipe_store/store_index.h"

namespace hpu::store {

class StorePlan {
 public:
  static constexpr size_t kAny = SIZE_MAX;

  // The index must not change while there is a plan for it.
  explicit StorePlan(const StoreIndex& index) : index_(&index), total_bytes_(index.total_bytes()) {}

  // As StoreIndex::PlanInsert and PlanAlias. The plan does not evict what it has named. After an
  // error the plan is as it was.
  absl::Status Insert(const Digest& key, uint64_t manifest_bytes, const std::vector<BlobRef>& refs);
  absl::Status Alias(const Digest& id, const std::string& tenant, const Digest& key,
                     uint64_t bytes);
  // An Addition is what will be added to a share.
  struct Addition {
    Digest key{};
    uint64_t entry_bytes = 0;
    uint64_t alias_bytes = 0;
  };
  absl::Status Share(const std::string& tenant, uint64_t max_bytes, const Addition& addition);
  // As Share, but removes at most `max_entries` and goes as far as it can. Returns how many it
  // removes.
  size_t TrimShare(const std::string& tenant, uint64_t max_bytes, const Addition& addition,
                   size_t max_entries = kAny);
  // Does nothing if the entry or alias is not there.
  void Remove(const Digest& key);
  void RemoveAlias(const Digest& id);
  // Removes the least recently used entries until at most `max_bytes` are left, at most
  // `max_entries` of them and never pinned ones. Returns how many it removes.
  size_t Evict(uint64_t max_bytes, size_t max_entries = kAny);
  // As StoreIndex::PlanGarbage, for at most `max_entries`. That is a command, so no tenant has a
  // loss. Returns how many it removes.
  size_t CollectGarbage(uint64_t max_bytes, uint64_t unused_since_micros,
                        size_t max_entries = kAny);

  bool Contains(const Digest& key) const;
  bool ContainsBlob(const Digest& digest) const { return EntriesOf(digest) > 0; }
  uint64_t total_bytes() const { return total_bytes_; }
  // Returns the change since the last call.
  StoreIndex::Change TakeChange() { return std::exchange(change_, {}); }

 private:
  void TakeOut(const Digest& key);
  void TakeOut(const Digest& key, const StoreIndex::IndexAlias& alias);
  void Release(const StoreIndex::IndexEntry& entry);
  bool MayGo(const Digest& key) const;
  void NoteLosses(const Digest& key);
  int64_t EntriesOf(const Digest& blob) const;
  // Returns the number of the tenant's aliases of the entry.
  int64_t NamesOf(const Digest& key, const std::string& tenant) const;
  uint64_t EntryBytes(const Digest& key) const;
  uint64_t ShareOf(const std::string& tenant) const;
  uint64_t ShareWith(const std::string& tenant, const Addition& addition) const;
  absl::Status CheckSize(const std::string& what) const;

  const StoreIndex* index_;
  uint64_t total_bytes_;
  std::set<Digest> kept_;            // keys that the plan names
  std::set<Digest> removed_;         // keys
  std::set<Digest> aliases_;         // ids that are removed
  std::map<Digest, int64_t> added_;  // blob -> difference to the index's entry counts
  // The sizes of entries that will be inserted.
  std::map<Digest, uint64_t> sizes_;
  std::map<std::pair<Digest, std::string>, int64_t> names_;  // difference to the index's counts
  std::map<std::string, int64_t> shares_;                    // tenant -> difference in bytes
  StoreIndex::Change change_;
};

}  // namespace hpu::store
