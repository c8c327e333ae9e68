// The command line of the compile server.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "compiler_server/service/compile_server.h"
#include "compiler_server/service/engine_flags.h"
#include "proto/options_generated.h"

namespace hpu::server {

struct ServerFlags {
  std::string cache_dir;
  std::string socket;
  store::StoreConfig store;
  std::string listen;
  NetworkOptions network;
  std::string metrics_address;
  std::string audit_file;
  std::string share_programs = "none";
  QueueOptions queue;
  int tenant_compile_seconds = 0;
  bool frozen = false;
  EngineFlags engines;
  std::string upstream_addresses;
  std::string config_file;
  UpstreamOptions upstream;
  int upstream_hedge_ms = static_cast<int>(UpstreamOptions{}.hedge_after.count());
  std::string log_file;
  uint64_t worker_memory = QueueOptions{}.worker_memory_bytes;
  int idle_timeout_s = 15 * 60;
  double compile_timeout_s = default_options::compile_timeout_s;
  int stop_grace_s = 10;
  int workers = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  int log_level = static_cast<int>(LogLevel::kInfo);
  bool foreground = false;
  bool daemon = false;
  bool memory_only = false;
  bool worker = false;
  bool print_build_id = false;
  bool check_config = false;
};

// Declares all options.
void DeclareFlags(CLI::App& app, ServerFlags& flags);

// Returns the place in `file` of the option that an error is about ("--NAME: ..."), as
// "FILE line N: ". It is empty if the option was given in `arguments`, which override the file, or
// if it cannot be found.
std::string PlaceOfError(const std::string& file, const std::vector<std::string>& arguments,
                         const std::string& error);

// Derives the paths that were not given from the cache folder, and checks what belongs together.
absl::Status CompleteFlags(ServerFlags& flags);

// Checks the files that the options name: a server would start without some of them, and report the
// others only when it starts.
absl::Status CheckFiles(const ServerFlags& flags);

ServerOptions ToOptions(const ServerFlags& flags, std::string build_id);

}  // namespace hpu::server
