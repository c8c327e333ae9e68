// The Synapse library takes some compile settings from process-wide configuration keys. A lease
// sets them and keeps others from changing them during its lifetime. Leases with equal settings can
// exist at the same time.
#pragma once

#include <string>

#include "base/status.h"
#include "synapse/loader.h"

namespace hpu::compiler {

struct LibraryConfiguration {
  std::string isa_level;          // emulator only; empty = the host's
  std::string visualization_dir;  // empty = no dumps
  size_t threads = 1;             // emulator only: for one synGraphCompile
  std::string disabled_passes;  // emulator only: passes of its graph compiler, separated by commas
  bool operator==(const LibraryConfiguration&) const = default;
};

class ConfigurationLease {
 public:
  // Waits until no lease with other settings exists, and then applies these.
  static absl::StatusOr<ConfigurationLease> Take(const SynapseFunctions& functions,
                                                 const LibraryConfiguration& configuration);
  ConfigurationLease(ConfigurationLease&& other) noexcept : held_(other.held_) {
    other.held_ = false;
  }
  ConfigurationLease(const ConfigurationLease&) = delete;
  ConfigurationLease& operator=(const ConfigurationLease&) = delete;
  ~ConfigurationLease();

 private:
  ConfigurationLease() = default;
  bool held_ = true;
};

}  // namespace hpu::compiler
