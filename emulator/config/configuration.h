// Named settings (reference 5.2). A value comes from synConfigurationSet, else from the environment
// variable of the same name, else from the default. Values are text; typed getters parse them.
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

  // NOT_FOUND: there is no such key. PERMISSION_DENIED: the key is private and
  // ENABLE_EXPERIMENTAL_FLAGS is not set. INVALID_ARGUMENT: the key does not accept the value; the
  // message names the allowed ones.
  absl::Status Set(const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Get(const std::string& key) const;

  // These are for keys that are known to exist.
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
