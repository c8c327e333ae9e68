// Converts recipes between the library's handles and bytes.
#pragma once

#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "synapse/loader.h"

namespace hpu {

// Owns a recipe and destroys it.
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
  synRecipeHandle Release() { return std::exchange(handle_, nullptr); }

 private:
  const SynapseFunctions* functions_;
  synRecipeHandle handle_;
};

// The C API writes and reads recipes by path; an anonymous file has a path and never touches a
// disk. The emulator reads recipes directly from memory.
absl::StatusOr<Bytes> SerializeRecipe(const SynapseFunctions& functions, synRecipeHandle recipe);
absl::StatusOr<RecipeHandle> DeserializeRecipe(const SynapseFunctions& functions,
                                               std::span<const uint8_t> bytes);

}  // namespace hpu
