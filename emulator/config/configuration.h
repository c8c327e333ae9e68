// Named settings (reference 5.2): default, then environment variable of the same name, then
// synConfigurationSet. Values are text; typed getters parse them.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"

namespace hpu::emulator {

class Configuration {
 public:
  Configuration();

  // NOT_FOUND: no such key. PERMISSION_DENIED: a private key without ENABLE_EXPERIMENTAL_FLAGS.
  // INVALID_ARGUMENT: the value is not one of the key's; names the allowed ones.
  absl::Status Set(const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Get(const std::string& key) const;

  // For keys that are known to exist.
  std::string Text(const std::string& key) const;
  bool Flag(const std::string& key) const;
  uint64_t Number(const std::string& key) const;

 private:
  enum class Kind { kText, kFlag, kNumber };
  struct Setting {
    Kind kind = Kind::kText;
    bool is_private = false;
    std::string value;
  };
  void Define(const char* key, Kind kind, bool is_private, const char* value);
  static absl::Status CheckValue(const std::string& key, const Setting& setting,
                                 const std::string& value);

  mutable std::mutex mutex_;
  std::map<std::string, Setting> settings_;
};

}  // namespace hpu::emulator
