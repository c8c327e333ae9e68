// Stacks the layers of the compile server's store:
//   metrics(read_caching(fast = memory, slow = verifying(rocksdb)))
#pragma once

#include <memory>
#include <string>

#include "recipe_store/keyring.h"
#include "recipe_store/recipe_store.h"

namespace hpu::store {

struct StoreConfig {
  std::string folder;  // holds db/ and the key files; empty = memory only
  uint64_t max_bytes = uint64_t{10} << 30;
  uint64_t memory_bytes = 256 << 20;
  std::string trusted_keys;  // folder of TrustedKeys; empty = own key only
};

struct OpenedStore {
  SigningKey signing_key;
  std::unique_ptr<TrustedKeys> trusted_keys;  // as they were when it was opened; outlives the store
  std::unique_ptr<RecipeStore> store;
  bool persistent = false;
};

// Always gives a store that serves: if the folder cannot be created, locked or read, programs are
// kept in memory only and one log line says why. INVALID_ARGUMENT: the configuration itself is
// wrong. Errors of TrustedKeys::Reload.
absl::StatusOr<OpenedStore> OpenStore(const StoreConfig& config);

}  // namespace hpu::store
