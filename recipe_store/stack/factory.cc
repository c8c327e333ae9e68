#include "recipe_store/stack/factory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "base/log.h"
#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/metrics_recipe_store.h"
#include "recipe_store/layers/read_caching_recipe_store.h"
#include "recipe_store/layers/read_only_recipe_store.h"
#include "recipe_store/layers/shared_tier_recipe_store.h"
#include "recipe_store/layers/verifying_recipe_store.h"
#include "recipe_store/redis/redis_lease.h"
#include "recipe_store/redis/redis_recipe_store.h"
#include "recipe_store/remote_cache/remote_cache_recipe_store.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"

namespace hpu::store {
namespace {

constexpr size_t kMaxWaitingWrites = 4096;

std::string ToOctal(mode_t mode) {
  std::ostringstream text;
  text << std::oct << mode;
  return text.str();
}

absl::Status MakePrivateFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), error);
  struct stat info{};
  // A user who can write to the folder above may lay a link to where our files must not go.
  if (lstat(folder.c_str(), &info) == 0 && S_ISLNK(info.st_mode) && info.st_uid != geteuid()) {
    return Error(absl::StatusCode::kPermissionDenied, "store folder ", folder,
                 " is a link of user ", info.st_uid,
                 "; remove it, or name a cache folder that is this user's alone");
  }
  if ((mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) || stat(folder.c_str(), &info) != 0) {
    return Error(absl::StatusCode::kUnavailable, "creating ", folder, ": ", std::strerror(errno));
  }
  // A user who can write here can replace keys and programs.
  if (info.st_uid == geteuid() && (info.st_mode & 022) == 0) return absl::OkStatus();
  return Error(absl::StatusCode::kPermissionDenied, "store folder ", folder, " (owner ",
               info.st_uid, ", mode ", ToOctal(info.st_mode & 07777), ") can be written by others;",
               " remove it or make it this user's with mode 700, or name another cache folder");
}

absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> OpenPersistent(const StoreConfig& config) {
  RETURN_IF_ERROR(MakePrivateFolder(config.folder));
  return RocksDbRecipeStore::Open(
      config.folder + "/db",
      RocksDbRecipeStore::Limits{config.max_bytes, config.tenant_bytes, config.evicted});
}

SigningKey LoadKey(const StoreConfig& config, bool* kept) {
  absl::StatusOr<SigningKey> key = SigningKey::LoadOrCreate(config.folder);
  *kept = key.ok();
  if (key.ok()) return *std::move(key);
  HPU_LOG(kWarning, "signing with a key of this process only; stored programs will be misses error="
                        << ToText(key.status()));
  return SigningKey::Generate();
}

// Returns null if programs are kept in memory only.
std::unique_ptr<RocksDbRecipeStore> OpenDisk(const StoreConfig& config) {
  if (config.folder.empty()) return nullptr;
  absl::StatusOr<std::unique_ptr<RocksDbRecipeStore>> disk = OpenPersistent(config);
  if (disk.ok()) return *std::move(disk);
  HPU_LOG(kWarning, "programs are kept in memory only folder=" << config.folder << " error="
                                                               << ToText(disk.status()));
  return nullptr;
}

absl::Status AddSharedTier(const StoreConfig& config, OpenedStore& opened) {
  RETURN_IF_ERROR(CheckEngines(config));
  std::unique_ptr<RecipeStore> engine;
  bool read_only = false;
  if (config.redis.has_value()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<RedisClient> client, RedisClient::Make(*config.redis));
    engine = std::make_unique<RedisRecipeStore>(client);
    read_only = config.redis_read_only;
    // This server must not even remove what it finds damaged there.
    if (read_only) engine = std::make_unique<ReadOnlyRecipeStore>(std::move(engine));
    if (!read_only) opened.leases = std::make_unique<RedisLeaseKeeper>(client);
  }
  if (config.remote_cache.has_value()) {
    ASSIGN_OR_RETURN(std::unique_ptr<RemoteCacheClient> client,
                     RemoteCacheClient::Make(*config.remote_cache));
    engine = std::make_unique<RemoteCacheRecipeStore>(std::move(client));
    read_only = config.remote_cache->read_only;
  }
  if (engine == nullptr) return absl::OkStatus();
  opened.behind = std::make_unique<WriteBehind>(config.behind_bytes, kMaxWaitingWrites);
  opened.hedge = std::make_shared<Hedge>("shared", config.hedge_after);
  opened.store = std::make_unique<SharedTierRecipeStore>(
      std::move(opened.store),
      std::make_shared<VerifyingRecipeStore>(std::move(engine), opened.trusted_keys.get()),
      opened.behind.get(), read_only, opened.hedge);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckEngines(const StoreConfig& config) {
  if (!config.remote_cache.has_value() || !config.redis.has_value() || !config.redis_read_only) {
    return absl::OkStatus();
  }
  return InvalidArgument("beside a remote cache Redis keeps leases only, which it cannot do ",
                         "read-only");
}

absl::StatusOr<OpenedStore> OpenStore(const StoreConfig& config) {
  if (config.max_bytes == 0 || config.memory_bytes == 0) {
    return InvalidArgument("the store's size limits must be above 0");
  }
  std::unique_ptr<RocksDbRecipeStore> disk = OpenDisk(config);
  const bool persistent = disk != nullptr;
  const bool writable = persistent && disk->writable();
  // In front of the disk it is a cache, where no tenant has a share.
  std::unique_ptr<RecipeStore> store = std::make_unique<MemoryRecipeStore>(
      config.memory_bytes, persistent ? 0 : config.tenant_bytes);
  bool key_kept = false;
  SigningKey key = persistent ? LoadKey(config, &key_kept) : SigningKey::Generate();
  auto trusted = std::make_unique<TrustedKeys>(key.public_key(), config.trusted_keys);
  RETURN_IF_ERROR(trusted->Reload().status());
  if (persistent) {
    store = MakeReadCaching(std::move(store),
                            std::make_unique<VerifyingRecipeStore>(std::move(disk), trusted.get()));
  }
  OpenedStore opened{std::move(key), std::move(trusted), std::move(store),
                     persistent,     writable,           key_kept};
  RETURN_IF_ERROR(AddSharedTier(config, opened));
  // The metrics layer lies over every store.
  opened.store = std::make_unique<MetricsRecipeStore>(std::move(opened.store), "store");
  return opened;
}

}  // namespace hpu::store
