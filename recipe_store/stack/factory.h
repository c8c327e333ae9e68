// Stacks the layers of the compile server's store:
//   metrics(shared_tier(near = read_caching(fast = memory, slow = verifying(rocksdb)),
//                       shared = verifying(redis | remote_cache)))
// without the shared tier where no engine is named. One engine keeps programs: where a remote cache
// is named, Redis keeps leases only, which a remote cache has none of.
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
  std::string folder;  // holds db/ and the key files; empty = memory only
  uint64_t max_bytes = uint64_t{10} << 30;
  uint64_t memory_bytes = 256 << 20;
  uint64_t tenant_bytes = 0;  // a tenant's share of what is kept; 0 = any
  EvictionSink evicted;       // is told what went for want of room on the disk
  // The engines that servers share.
  std::optional<RedisOptions> redis;
  bool redis_read_only = false;  // nothing is written there, no lease taken
  std::optional<RemoteCacheOptions> remote_cache;
  // How long a look-up there is waited for before it is taken for a miss; 0: to its end.
  std::chrono::milliseconds hedge_after{100};
  uint64_t behind_bytes = 256 << 20;  // that wait to be written to the one that keeps programs
  std::string trusted_keys;           // folder of TrustedKeys; empty = own key only
};

struct OpenedStore {
  SigningKey signing_key;
  std::unique_ptr<TrustedKeys> trusted_keys;  // as they were when it was opened; outlives the store
  std::unique_ptr<RecipeStore> store;
  bool persistent = false;
  bool key_kept = false;  // the signing key is that of the folder, not of this process only
  // Where servers share an engine: who compiles what, if it is Redis, and the writes that nobody
  // waits for, which are to end before the store does.
  std::unique_ptr<LeaseKeeper> leases;
  std::unique_ptr<WriteBehind> behind;
  std::shared_ptr<Hedge> hedge;  // of look-ups in the engine, the store's too
};

// INVALID_ARGUMENT: the engines do not go together.
absl::Status CheckEngines(const StoreConfig& config);

// Always gives a store that serves: if the folder cannot be created, locked or read, programs are
// kept in memory only and one log line says why. INVALID_ARGUMENT: the configuration itself is
// wrong. Errors of TrustedKeys::Reload.
absl::StatusOr<OpenedStore> OpenStore(const StoreConfig& config);

}  // namespace hpu::store
