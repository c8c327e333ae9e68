// ForwardingRecipeStore passes every call on to the store below. Layers derive from it and override
// what they change.
#pragma once

#include "recipe_store/recipe_store.h"

namespace hpu::store {

// Errors are those of the store below, which the layer owns. Thread-safe.
class ForwardingRecipeStore : public RecipeStore {
 public:
  explicit ForwardingRecipeStore(std::unique_ptr<RecipeStore> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override {
    return inner_->Find(key, purpose);
  }
  absl::Status Put(const Entry& entry) override { return inner_->Put(entry); }
  absl::Status Quarantine(const Digest& key, const std::string& reason) override {
    return inner_->Quarantine(key, reason);
  }

  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override { return inner_->GetAlias(id); }
  absl::Status PutAlias(const AliasRecord& alias) override { return inner_->PutAlias(alias); }
  absl::Status DropAlias(const Digest& id) override { return inner_->DropAlias(id); }

  void NoteUse(const Digest& key) override { inner_->NoteUse(key); }
  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override {
    return inner_->MakeRoom(tenant, entry);
  }
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override {
    return inner_->AliasesOf(key);
  }
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override {
    return inner_->List(limit, after);
  }
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override {
    return inner_->Positions(limit, after);
  }
  absl::Status Pin(const Digest& key, bool pinned) override { return inner_->Pin(key, pinned); }
  absl::StatusOr<std::vector<Digest>> Pinned() override { return inner_->Pinned(); }
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override {
    return inner_->CollectGarbage(max_bytes, unused_since);
  }
  absl::Status Flush() override { return inner_->Flush(); }
  void AddCounters(std::map<std::string, uint64_t>& counters) const override {
    inner_->AddCounters(counters);
  }

 private:
  const std::unique_ptr<RecipeStore> inner_;
};

}  // namespace hpu::store
