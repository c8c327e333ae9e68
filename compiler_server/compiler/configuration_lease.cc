#include "compiler_server/compiler/configuration_lease.h"

#include <condition_variable>
#include <mutex>
#include <optional>

namespace hpu::compiler {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable idle;
  int holders = 0;                              // guarded by mutex
  std::optional<LibraryConfiguration> applied;  // guarded by mutex; nullopt = unknown
};

State& GetState() {
  static State* state = new State;
  return *state;
}

absl::Status Apply(const SynapseFunctions& functions, const LibraryConfiguration& configuration) {
  const auto set = [&](const char* key, const std::string& value) {
    return ToStatus(functions, functions.synConfigurationSet(key, value.c_str()), key);
  };
  RETURN_IF_ERROR(
      set("GRAPH_VISUALIZATION", configuration.visualization_dir.empty() ? "false" : "true"));
  if (!functions.is_emulator()) return absl::OkStatus();
  RETURN_IF_ERROR(set("EMULATOR_ISA_LEVEL", configuration.isa_level));
  RETURN_IF_ERROR(set("EMULATOR_COMPILE_THREADS", std::to_string(configuration.threads)));
  RETURN_IF_ERROR(set("EMULATOR_DISABLED_PASSES", configuration.disabled_passes));
  return set("EMULATOR_DUMP_DIR", configuration.visualization_dir);
}

}  // namespace

absl::StatusOr<ConfigurationLease> ConfigurationLease::Take(
    const SynapseFunctions& functions, const LibraryConfiguration& configuration) {
  State& state = GetState();
  std::unique_lock lock(state.mutex);
  state.idle.wait(lock, [&] { return state.holders == 0 || state.applied == configuration; });
  if (state.applied != configuration) {
    state.applied.reset();
    RETURN_IF_ERROR(Apply(functions, configuration));
    state.applied = configuration;
  }
  ++state.holders;
  return ConfigurationLease();
}

ConfigurationLease::~ConfigurationLease() {
  if (!held_) return;
  State& state = GetState();
  {
    std::lock_guard lock(state.mutex);
    --state.holders;
  }
  state.idle.notify_all();
}

}  // namespace hpu::compiler
