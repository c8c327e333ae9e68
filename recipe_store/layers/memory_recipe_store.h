// MemoryRecipeStore keeps entries in this process. Their bytes are bounded, and the least recently
// used entries are evicted first.
#pragma once

#include <map>
#include <mutex>

#include "recipe_store/recipe_store.h"
#include "recipe_store/store_index.h"

namespace hpu::store {

// Thread-safe.
class MemoryRecipeStore : public RecipeStore {
 public:
  // `tenant_bytes` bounds a tenant's share; 0 means that nothing does.
  explicit MemoryRecipeStore(uint64_t max_bytes, uint64_t tenant_bytes = 0)
      : index_(max_bytes, tenant_bytes) {}

  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  absl::Status Put(const Entry& entry) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;

  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;

  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override;
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // Requires mutex_.
  void Apply(const StoreIndex::Change& change);

  mutable std::mutex mutex_;
  // The fields below are guarded by mutex_.
  StoreIndex index_;
  std::map<Digest, Entry> entries_;
  std::map<Digest, Blob> blobs_;
  std::map<Digest, AliasRecord> aliases_;  // by id
  uint64_t hits_ = 0;
  uint64_t evictions_ = 0;
};

}  // namespace hpu::store
