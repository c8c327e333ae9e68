// A fast store in front of a slow one: reads fill the fast one, writes go to both.
#pragma once

#include "recipe_store/recipe_store.h"

namespace hpu::store {

class ReadCachingRecipeStore : public RecipeStore {
 public:
  ReadCachingRecipeStore(std::unique_ptr<RecipeStore> fast, std::unique_ptr<RecipeStore> slow)
      : fast_(std::move(fast)), slow_(std::move(slow)) {}

  // A fault of the fast store is a miss there.
  absl::StatusOr<Entry> Get(const Digest& key) override;
  // The slow store's answer. The fast one is filled even if the slow one cannot be written, so that
  // serving goes on while a disk is full.
  absl::StatusOr<Entry> Peek(const Digest& key) override;
  absl::Status Put(const Entry& entry) override;
  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override {
    return slow_->MakeRoom(tenant, entry);
  }
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override {
    return slow_->Positions(limit, after);
  }
  absl::Status Verify(const Digest& key) override;
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  const std::unique_ptr<RecipeStore> fast_;
  const std::unique_ptr<RecipeStore> slow_;
};

}  // namespace hpu::store
