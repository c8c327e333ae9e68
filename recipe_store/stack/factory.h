// OpenStore stacks the layers of the compile server's store:
//   metrics(shared_tier(near = read_caching(fast = memory, slow = verifying(rocksdb)),
//                       shared = verifying(redis | remote_cache)))
// There is no shared tier if no engine is named. One engine keeps programs: if a remote cache is
// named, Redis keeps leases only, which a remote cache cannot do.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "recipe_store/layers/hedge.h"
#include "recipe_store/layers/write_behind.h"
#include "recipe_store/lease.h"
#include "recipe_store/recipe_store.h"
#include "recipe_store/redis/redis_options.h"
#include "recipe_store/remote_cache/remote_cache_options.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::store {

struct StoreConfig {
  std::string folder;  // holds db/ and the key files; empty means memory only
  uint64_t max_bytes = uint64_t{10} << 30;
  uint64_t memory_bytes = 256 << 20;
  // The share of each tenant of what is kept; 0 means that nothing bounds it.
  uint64_t tenant_bytes = 0;
  // The sink is told what the disk evicted.
  EvictionSink evicted;
  // These are the engines that servers share.
  std::optional<RedisOptions> redis;
  bool redis_read_only = false;  // nothing is written there and no lease is taken
  std::optional<RemoteCacheOptions> remote_cache;
  // A look-up in the engine that takes longer is a miss for its caller. With 0 callers wait to the
  // end.
  std::chrono::milliseconds hedge_after{100};
  // So many bytes may wait to be written to the engine that keeps programs.
  uint64_t behind_bytes = 256 << 20;
  std::string trusted_keys;  // folder of TrustedKeys; empty means the own key only
};

struct OpenedStore {
  SigningKey signing_key;
  // The keys as they were when the store was opened. They outlive the store.
  std::unique_ptr<TrustedKeys> trusted_keys;
  std::unique_ptr<RecipeStore> store;
  bool persistent = false;  // programs are read from a folder
  bool writable = false;    // and new ones are kept there
  bool key_kept = false;    // the signing key is that of the folder, not of this process only
  // The fields below are null if servers share no engine. Only Redis keeps leases. `behind` holds
  // the writes to the engine, and is destroyed before the store.
  std::unique_ptr<LeaseKeeper> leases;
  std::unique_ptr<WriteBehind> behind;
  std::shared_ptr<Hedge> hedge;  // shared with the store
};

// Returns INVALID_ARGUMENT if the engines do not go together.
absl::Status CheckEngines(const StoreConfig& config);

// Always returns a store that serves: if the folder cannot be created, locked or read, programs are
// kept in memory only, and one log line says why. INVALID_ARGUMENT: the configuration itself is
// wrong. Also returns errors of TrustedKeys::Reload. The caller owns all parts of the result.
absl::StatusOr<OpenedStore> OpenStore(const StoreConfig& config);

}  // namespace hpu::store
