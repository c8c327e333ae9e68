// FailingRecipeStore answers every call with one error. It stands in for an engine that is broken.
#pragma once

#include "recipe_store/recipe_store.h"

namespace hpu::store {

class FailingRecipeStore : public RecipeStore {
 public:
  // `error` must not be OK.
  explicit FailingRecipeStore(absl::Status error) : error_(std::move(error)) {}

  absl::StatusOr<Entry> Find(const Digest&, Purpose) override { return error_; }
  absl::Status Put(const Entry&) override { return error_; }
  absl::Status Quarantine(const Digest&, const std::string&) override { return error_; }
  absl::StatusOr<AliasRecord> GetAlias(const Digest&) override { return error_; }
  absl::Status PutAlias(const AliasRecord&) override { return error_; }
  absl::Status DropAlias(const Digest&) override { return error_; }
  void AddCounters(std::map<std::string, uint64_t>&) const override {}

 private:
  const absl::Status error_;
};

}  // namespace hpu::store
