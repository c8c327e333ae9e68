#include "emulator/config/configuration.h"

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "base/log.h"
#include "recipe/isa.h"

namespace hpu::emulator {
namespace {

std::optional<bool> ParseFlag(const std::string& value) {
  std::string lowered = value;
  for (char& letter : lowered) letter = static_cast<char>(std::tolower(letter));
  for (const char* text : {"1", "true", "on", "yes"}) {
    if (lowered == text) return true;
  }
  for (const char* text : {"0", "false", "off", "no"}) {
    if (lowered == text) return false;
  }
  return std::nullopt;
}

bool IsNumber(const std::string& value) {
  if (value.empty()) return false;
  char* end = nullptr;
  std::strtoull(value.c_str(), &end, 0);
  return *end == '\0' && value[0] != '-';
}

// The process has several configurations.
void WarnOnce(const std::string& key, const absl::Status& status) {
  static std::mutex mutex;
  static auto* warned = new std::set<std::string>();
  const std::lock_guard lock(mutex);
  if (warned->insert(key).second) {
    HPU_LOG(kWarning, status.message() << "; it counts as not set");
  }
}

bool IsCollectiveKey(const std::string& key) {
  return key.rfind("HCL_", 0) == 0 || key.rfind("HCCL_", 0) == 0;
}

}  // namespace

Configuration::Configuration() {
  // These are keys of the vendor's library. The emulator acts on those in the first block; it
  // accepts the others so that clients that set them run unchanged.
  Define("GRAPH_VISUALIZATION", Kind::kFlag, false, "false");
  Define("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE", Kind::kFlag, false, "false");
  Define("HABANA_DISABLE_DOUBLE_SYN_DESTROY", Kind::kFlag, false, "true");
  Define("ENABLE_EXPERIMENTAL_FLAGS", Kind::kFlag, false, "false");
  Define("EXP_FLAGS", Kind::kFlag, false, "false");
  Define("MAX_CONST_TENSOR_SIZE_BYTES", Kind::kNumber, true, "1048576");
  Define("CHECK_SECTION_OVERLAP", Kind::kFlag, true, "true");
  Define("GCFG_NUM_OF_USER_STREAM_EVENTS", Kind::kNumber, true, "10485760");
  Define("DETERMINISTIC_MODE", Kind::kFlag, true, "false");
  Define("HCCL_COMM_ID", Kind::kText, false, "");        // host:port where rank 0 listens
  Define("HCCL_SOCKET_IFNAME", Kind::kText, false, "");  // prefixes of interfaces
  Define("HCCL_OVER_OFI", Kind::kFlag, false, "false");  // libfabric chooses how hosts are joined

  Define("DUMP_PRE_GRAPHS", Kind::kText, false, "");
  Define("DUMP_POST_GRAPHS", Kind::kText, false, "");
  Define("ENABLE_PROFILER", Kind::kFlag, false, "false");
  Define("CREATE_USED_CONFIGS_FILE", Kind::kText, false, "");
  Define("ENABLE_SYNAPSE_QUANTIZATION", Kind::kFlag, false, "false");
  Define("SYNAPSE_DATA_TYPE_SELECTION", Kind::kFlag, false, "true");
  Define("PROFILE_PRECISION", Kind::kText, false, "hf8");
  Define("NUM_OF_LAYERS_TO_RAISE", Kind::kText, false, "");
  Define("MEDIA_RECIPES", Kind::kText, false, "");
  Define("ENABLE_SPARSITY_WEIGHTS", Kind::kText, false, "");
  Define("ENABLE_RAGGED_SOFTMAX_OPT", Kind::kFlag, false, "false");
  Define("RAGGED_SOFTMAX_OPT_AMP_VAL", Kind::kText, false, "-10000");
  Define("ENABLE_BN_FCD_PACKING", Kind::kFlag, false, "true");
  Define("SCAL_CONFIG_FILE_PATH", Kind::kText, false, "");
  Define("ENABLE_PARALLEL_COMPILATION", Kind::kFlag, true, "true");
  Define("RUNTIME_DUMP_RECIPE", Kind::kText, true, "");
  Define("FORCE_EAGER", Kind::kNumber, true, "2");
  Define("TERMINATE_SYNAPSE_UPON_DFA", Kind::kNumber, true, "2");
  Define("LOG_LAUNCH_INFO_UPON_FAILURE", Kind::kText, true, "");

  // These keys are the emulator's own. They are public because they exist for tests and
  // cross-compilation.
  Define("EMULATOR_ISA_LEVEL", Kind::kText, false, "");           // empty = the level of the host
  Define("EMULATOR_COMPILE_THREADS", Kind::kNumber, false, "0");  // 0 = one per CPU
  Define("EMULATOR_DUMP_DIR", Kind::kText, false, ".graph_dumps");
  // Names from graph_compiler/pipeline.cc.
  Define("EMULATOR_DISABLED_PASSES", Kind::kText, false, "");
  Define("EMULATOR_STRICT", Kind::kFlag, false, "false");     // the device behaves as a card does
  Define("EMULATOR_STRICT_SEED", Kind::kNumber, false, "0");  // of the delays between streams
  Define("EMULATOR_TRACE_FILE", Kind::kText, false, "");      // where synProfilerStop writes
  Define("EMULATOR_HCCL_JOIN_SECONDS", Kind::kNumber, false, "300");    // the wait for all ranks
  Define("EMULATOR_HCCL_SILENCE_SECONDS", Kind::kNumber, false, "30");  // until a rank is gone
  Define("EMULATOR_HCCL_SHARE_MEMORY", Kind::kFlag, false, "true");     // between ranks of a host
  Define("HPU_EMULATOR_DEVICE", Kind::kText, false, "gaudi2");
  Define("HPU_EMULATOR_FAULTS", Kind::kText, false, "");
  Define("HPU_EMULATOR_PACK_BYTES", Kind::kNumber, false, "0");  // 0 = half of the device's DRAM
}

void Configuration::Define(const char* key, Kind kind, bool is_private, const char* value) {
  Setting& setting = settings_[key];
  setting = {kind, is_private, value};
  const char* text = std::getenv(key);
  if (text == nullptr) return;
  // A variable with a wrong value is treated as if it were not set, because the environment may be
  // meant for other programs. Those of the emulator are not.
  const absl::Status status = CheckValue(key, setting, text);
  if (status.ok()) {
    setting.value = text;
  } else if (std::strstr(key, "EMULATOR_") != nullptr) {
    WarnOnce(key, status);
  }
}

absl::Status Configuration::CheckValue(const std::string& key, const Setting& setting,
                                       const std::string& value) {
  if (setting.kind == Kind::kFlag && !ParseFlag(value).has_value()) {
    return InvalidArgument(key, "=", value, ": allowed are true, false, on, off, yes, no, 1 and 0");
  }
  if (setting.kind == Kind::kNumber && !IsNumber(value)) {
    return InvalidArgument(key, "=", value, ": the value must be a number");
  }
  if (key == "EMULATOR_ISA_LEVEL" && !value.empty() && !IsaLevelFromName(value).has_value()) {
    return InvalidArgument(
        key, "=", value,
        ": allowed are x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4-bf16, x86-64-v4-amx or nothing");
  }
  return absl::OkStatus();
}

absl::Status Configuration::Set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  const auto found = settings_.find(key);
  if (found == settings_.end()) {
    if (!IsCollectiveKey(key)) return NotFound("no configuration key is named ", key);
    settings_[key] = {Kind::kText, false, value};
    return absl::OkStatus();
  }
  Setting& setting = found->second;
  if (setting.is_private && !ParseFlag(settings_["ENABLE_EXPERIMENTAL_FLAGS"].value).value() &&
      !ParseFlag(settings_["EXP_FLAGS"].value).value()) {
    return Error(absl::StatusCode::kPermissionDenied, "configuration key ", key,
                 " is private: set ENABLE_EXPERIMENTAL_FLAGS to true first");
  }
  RETURN_IF_ERROR(CheckValue(key, setting, value));
  setting.value = value;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Configuration::Get(const std::string& key) const {
  std::lock_guard lock(mutex_);
  const auto found = settings_.find(key);
  if (found != settings_.end()) return found->second.value;
  if (!IsCollectiveKey(key)) return NotFound("no configuration key is named ", key);
  const char* text = std::getenv(key.c_str());
  return std::string(text != nullptr ? text : "");
}

std::string Configuration::Text(const std::string& key) const {
  std::lock_guard lock(mutex_);
  return settings_.at(key).value;
}

bool Configuration::Flag(const std::string& key) const { return ParseFlag(Text(key)).value(); }

uint64_t Configuration::Number(const std::string& key) const {
  return std::strtoull(Text(key).c_str(), nullptr, 0);
}

}  // namespace hpu::emulator
