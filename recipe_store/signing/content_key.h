// A content key is a digest of everything that a program is made of, and programs are filed under
// it alone. Server and client compute it with this file, each from what it has itself
// (docs/cache_key.md).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/status.h"

namespace hpu::store {

using OptionList = std::vector<std::pair<std::string, std::string>>;  // name, value

// A KeyFactor is one ordered ingredient of a key as text, so that a miss can be explained.
struct KeyFactor {
  std::string name;
  std::string value;

  bool operator==(const KeyFactor&) const = default;
};

struct Content {
  Digest graph{};      // GraphDigest of the captured graph
  OptionList options;  // as CanonicalOptions gives them
  std::string device_kind;
  std::string isa_level;  // empty for a real device
  std::string compiler_build_id;

  bool operator==(const Content&) const = default;
};

Digest ContentKey(const Content& content);

// Returns the same fields as text, for people.
std::vector<KeyFactor> ContentFactors(const Content& content);

// Returns all options that enter the key (rows of proto/options.yaml) by name, with defaults where
// `given` has none, so that front ends that say the same in other words meet in one program.
// INVALID_ARGUMENT: an option or a value does not exist, or an option is given twice.
absl::StatusOr<OptionList> CanonicalOptions(const OptionList& given);

}  // namespace hpu::store
