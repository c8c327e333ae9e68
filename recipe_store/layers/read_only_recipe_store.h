// A store that is read and never changed: what would change it is taken for done. For an engine
// that belongs to somebody else.
#pragma once

#include "recipe_store/layers/forwarding_recipe_store.h"

namespace hpu::store {

class ReadOnlyRecipeStore : public ForwardingRecipeStore {
 public:
  using ForwardingRecipeStore::ForwardingRecipeStore;

  absl::Status Put(const Entry&) override { return absl::OkStatus(); }
  absl::Status PutAlias(const AliasRecord&) override { return absl::OkStatus(); }
  absl::Status DropAlias(const Digest&) override { return absl::OkStatus(); }
  absl::Status Quarantine(const Digest&, const std::string&) override { return absl::OkStatus(); }
};

}  // namespace hpu::store
