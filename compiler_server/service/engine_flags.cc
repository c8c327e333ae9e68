#include "compiler_server/service/engine_flags.h"

#include <filesystem>

#include "base/regular_file.h"
#include "proto/channel_access.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxPasswordBytes = 64 << 10;

void DeclareRedis(CLI::App& app, EngineFlags& flags) {
  app.add_option("--redis", flags.redis.addresses,
                 "Redis engine that servers share: HOST:PORT, several of them (replicas, or nodes "
                 "of a cluster), or sentinel:NAME@HOST:PORT,...; beside --remote-cache it "
                 "keeps only the leases of keys");
  app.add_option("--redis-prefix", flags.redis.prefix, "prefix of all keys there");
  app.add_option("--redis-user", flags.redis.user, "name for AUTH");
  DeclarePath(app, "--redis-password", flags.redis_password_file,
              "file whose first line is the password for AUTH");
  app.add_option("--redis-ttl", flags.redis_ttl_s,
                 "seconds after which an unused entry is removed; 0 = the engine decides")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--redis-timeout", flags.redis_timeout_ms, "milliseconds one command may take")
      ->check(CLI::Range(1, 60'000));
  app.add_flag("--redis-read-only", flags.redis_read_only, "write nothing there");
}

void DeclareRemoteCache(CLI::App& app, EngineFlags& flags) {
  app.add_option("--remote-cache", flags.remote_cache.address,
                 "Remote Execution API cache that servers share: grpcs://HOST:PORT, or "
                 "grpc://HOST:PORT on a private network");
  app.add_option("--remote-cache-instance", flags.remote_cache.instance,
                 "instance name of all requests to it");
  DeclarePath(
      app, "--remote-cache-ca", flags.remote_cache.access.ca_file,
      "authorities, PEM, that its certificate is checked with; by default those of the system");
  DeclarePath(app, "--remote-cache-certificate", flags.remote_cache.access.certificate_file,
              "certificate, PEM, that is shown to it");
  DeclarePath(app, "--remote-cache-key", flags.remote_cache.access.key_file, "its key, PEM");
  DeclarePath(app, "--remote-cache-token", flags.remote_cache.access.token_file,
              "file whose first line is the token that is sent to it");
  app.add_option("--remote-cache-timeout", flags.remote_cache_timeout_ms,
                 "milliseconds one look-up there may take, besides the time for its bytes")
      ->check(CLI::Range(1, 60'000));
  app.add_flag("--remote-cache-read-only", flags.remote_cache.read_only, "write nothing there");
}

absl::Status CompleteRedis(const EngineFlags& flags, store::StoreConfig& store) {
  if (flags.redis.addresses.empty()) return absl::OkStatus();
  store::RedisOptions redis = flags.redis;
  if (!flags.redis_password_file.empty()) {
    const absl::StatusOr<std::string> text =
        ReadRegularFile(flags.redis_password_file, kMaxPasswordBytes);
    RETURN_IF_ERROR_AT(text.status(), "--redis-password");
    if (text->empty()) {
      return InvalidArgument("--redis-password ", flags.redis_password_file, " has no first line");
    }
    redis.password = text->substr(0, text->find('\n'));
  }
  redis.entry_ttl = std::chrono::seconds(flags.redis_ttl_s);
  redis.command_timeout = std::chrono::milliseconds(flags.redis_timeout_ms);
  RETURN_IF_ERROR(store::CheckRedisOptions(redis));
  store.redis = std::move(redis);
  store.redis_read_only = flags.redis_read_only;
  return absl::OkStatus();
}

absl::Status CompleteRemoteCache(const EngineFlags& flags, store::StoreConfig& store) {
  if (flags.remote_cache.address.empty()) return absl::OkStatus();
  store::RemoteCacheOptions remote_cache = flags.remote_cache;
  remote_cache.timeout = std::chrono::milliseconds(flags.remote_cache_timeout_ms);
  RETURN_IF_ERROR(store::CheckRemoteCacheOptions(remote_cache));
  const std::string& certificate = remote_cache.access.certificate_file;
  if (!certificate.empty()) {
    RETURN_IF_ERROR(ExpiryOfChain("remote-cache-certificate", certificate).status());
  }
  if (!remote_cache.access.token_file.empty()) {
    RETURN_IF_ERROR_AT(ReadBearer(remote_cache.access.token_file).status(), "--remote-cache-token");
  }
  store.remote_cache = std::move(remote_cache);
  return absl::OkStatus();
}

}  // namespace

void DeclarePath(CLI::App& app, const std::string& name, std::string& path,
                 const std::string& text) {
  app.add_option(name, path, text)->transform([](const std::string& given) {
    return given.empty() ? given : std::filesystem::absolute(given).string();
  });
}

void DeclareEngines(CLI::App& app, EngineFlags& flags) {
  DeclareRedis(app, flags);
  DeclareRemoteCache(app, flags);
  app.add_option("--engine-hedge", flags.hedge_ms,
                 "milliseconds to wait for a shared engine before compiling begins as well; "
                 "0 = no limit")
      ->check(CLI::Range(0, 60'000));
}

absl::Status CheckEngineFiles(const EngineFlags& flags) {
  if (!flags.redis.addresses.empty() && !flags.redis_password_file.empty()) {
    RETURN_IF_ERROR_AT(ReadSecret(flags.redis_password_file, kMaxPasswordBytes).status(),
                       "--redis-password");
  }
  return flags.remote_cache.address.empty() ? absl::OkStatus()
                                            : CheckAccess(flags.remote_cache.access);
}

absl::Status CompleteEngines(const EngineFlags& flags, store::StoreConfig& store) {
  store.hedge_after = std::chrono::milliseconds(flags.hedge_ms);
  RETURN_IF_ERROR(CompleteRedis(flags, store));
  RETURN_IF_ERROR(CompleteRemoteCache(flags, store));
  return store::CheckEngines(store);
}

}  // namespace hpu::server
