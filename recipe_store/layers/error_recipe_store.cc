#include "recipe_store/layers/error_recipe_store.h"

namespace hpu::store {

ErrorRecipeStore::ErrorRecipeStore(absl::Status error) : error_(std::move(error)) {
  HPU_CHECK(!error_.ok(), "an error store needs an error");
}

}  // namespace hpu::store
