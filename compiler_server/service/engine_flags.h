// Options of the compile server's command line that name the engines which servers share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "recipe_store/stack/factory.h"

namespace hpu::server {

struct EngineFlags {
  int hedge_ms = static_cast<int>(store::StoreConfig{}.hedge_after.count());
  store::RedisOptions redis;
  std::string redis_password_file;
  int redis_ttl_s = 0;
  int redis_timeout_ms = static_cast<int>(store::RedisOptions{}.command_timeout.count());
  bool redis_read_only = false;
  store::RemoteCacheOptions remote_cache;
  int remote_cache_timeout_ms = static_cast<int>(store::RemoteCacheOptions{}.timeout.count());
};

// Declares an option that is a path. The path becomes absolute, because a daemon changes its
// working folder.
void DeclarePath(CLI::App& app, const std::string& name, std::string& path,
                 const std::string& text);

void DeclareEngines(CLI::App& app, EngineFlags& flags);

// Puts the given options into `store`. Returns INVALID_ARGUMENT for one that cannot work, alone or
// together with others.
absl::Status CompleteEngines(const EngineFlags& flags, store::StoreConfig& store);

// Reports a fault in the files of the engines. Such a fault does not keep a server from starting:
// the server runs without an engine that refuses it.
absl::Status CheckEngineFiles(const EngineFlags& flags);

}  // namespace hpu::server
