// The read cache: a fast store in front of a slow one. Reads fill the fast store, and writes go to
// both. There is a layer for programs and one for aliases, and both cache in the same fast store.
#pragma once

#include "recipe_store/layers/forwarding_recipe_store.h"

namespace hpu::store {

// Puts both layers over `slow`. `fast` caches.
std::unique_ptr<RecipeStore> MakeReadCaching(std::shared_ptr<RecipeStore> fast,
                                             std::unique_ptr<RecipeStore> slow);

// Caches programs. A fault of the fast store is a miss there; other errors are those of the store
// below. Thread-safe.
class ProgramCachingRecipeStore : public ForwardingRecipeStore {
 public:
  ProgramCachingRecipeStore(std::shared_ptr<RecipeStore> fast, std::unique_ptr<RecipeStore> slow)
      : ForwardingRecipeStore(std::move(slow)), fast_(std::move(fast)) {}

  // kVerify reads the store below, and drops the cached value if that has lost the entry.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  // Returns the answer of the store below. The fast store is filled even if the store below cannot
  // be written, so that the server can go on serving while a disk is full.
  absl::Status Put(const Entry& entry) override;
  // Also returns an error of the fast store, because an entry that stays there stays in service.
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  const std::shared_ptr<RecipeStore> fast_;
};

// Caches aliases, and adds to the lists of the store below what it could not keep and the fast
// store has. The fast store must be that of the programs, because an alias needs its entry. Errors
// are those of ProgramCachingRecipeStore. Thread-safe.
class AliasCachingRecipeStore : public ForwardingRecipeStore {
 public:
  AliasCachingRecipeStore(std::shared_ptr<RecipeStore> fast, std::unique_ptr<RecipeStore> slow)
      : ForwardingRecipeStore(std::move(slow)), fast_(std::move(fast)) {}

  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  // Also returns an error of the fast store, because an alias that stays there stays in service.
  absl::Status DropAlias(const Digest& id) override;
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override;
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override;

 private:
  const std::shared_ptr<RecipeStore> fast_;
};

}  // namespace hpu::store
