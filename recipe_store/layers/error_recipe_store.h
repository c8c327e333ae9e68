// Answers everything with one error: for tests of what stands above a failing store, and for
// switching a store off.
#pragma once

#include "recipe_store/recipe_store.h"

namespace hpu::store {

class ErrorRecipeStore : public RecipeStore {
 public:
  // `error` must not be OK.
  explicit ErrorRecipeStore(absl::Status error);

  absl::StatusOr<Entry> Get(const Digest&) override { return error_; }
  absl::Status Put(const Entry&) override { return error_; }
  absl::StatusOr<AliasRecord> GetAlias(const Digest&) override { return error_; }
  absl::Status PutAlias(const AliasRecord&) override { return error_; }
  absl::Status DropAlias(const Digest&) override { return error_; }
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest&) override { return error_; }
  absl::StatusOr<std::vector<Manifest>> List(size_t, const std::optional<ListPosition>&) override {
    return error_;
  }
  absl::Status Quarantine(const Digest&, const std::string&) override { return error_; }
  absl::Status Pin(const Digest&, bool) override { return error_; }
  absl::StatusOr<std::vector<Digest>> Pinned() override { return error_; }
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t, uint64_t) override { return error_; }
  absl::Status Verify(const Digest&) override { return error_; }
  absl::Status Flush() override { return error_; }
  void AddCounters(std::map<std::string, uint64_t>&) const override {}

 private:
  const absl::Status error_;
};

}  // namespace hpu::store
