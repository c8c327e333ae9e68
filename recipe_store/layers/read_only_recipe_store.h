// ReadOnlyRecipeStore reads the engine below and never changes it: it answers OK to a call that
// would change it. It is for an engine that belongs to somebody else.
#pragma once

#include "recipe_store/layers/forwarding_recipe_store.h"

namespace hpu::store {

// Errors of reads are those of the engine. Thread-safe.
class ReadOnlyRecipeStore : public ForwardingRecipeStore {
 public:
  using ForwardingRecipeStore::ForwardingRecipeStore;

  absl::Status Put(const Entry&) override { return absl::OkStatus(); }
  absl::Status PutAlias(const AliasRecord&) override { return absl::OkStatus(); }
  absl::Status DropAlias(const Digest&) override { return absl::OkStatus(); }
  absl::Status Quarantine(const Digest&, const std::string&) override { return absl::OkStatus(); }
};

}  // namespace hpu::store
