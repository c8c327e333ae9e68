// Recipes between the library's handles and bytes.
#pragma once

#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "synapse/loader.h"

namespace hpu::compiler {

// Destroys its recipe.
class RecipeHandle {
 public:
  RecipeHandle(const SynapseFunctions& functions, synRecipeHandle handle)
      : functions_(&functions), handle_(handle) {}
  RecipeHandle(RecipeHandle&& other) noexcept
      : functions_(other.functions_), handle_(std::exchange(other.handle_, nullptr)) {}
  RecipeHandle(const RecipeHandle&) = delete;
  RecipeHandle& operator=(const RecipeHandle&) = delete;
  ~RecipeHandle() {
    if (handle_ != nullptr) functions_->synRecipeDestroy(handle_);
  }
  synRecipeHandle get() const { return handle_; }

 private:
  const SynapseFunctions* functions_;
  synRecipeHandle handle_;
};

// From and to memory where the library can, else through an anonymous file.
absl::StatusOr<Bytes> SerializeRecipe(const SynapseFunctions& functions, synRecipeHandle recipe);
absl::StatusOr<RecipeHandle> DeserializeRecipe(const SynapseFunctions& functions,
                                               std::span<const uint8_t> bytes);

}  // namespace hpu::compiler
