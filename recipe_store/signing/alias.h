// An alias is a tenant's front-end key of a program, and the name of the program there. It is
// small, signed and private to its tenant: a wrong alias misleads nobody but the tenant that wrote
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "recipe_store/signing/content_key.h"
#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

// A front end knows a program by its FrontEndKey before it has captured a graph.
struct FrontEndKey {
  Digest key{};
  std::vector<KeyFactor> factors;
  std::string label;  // for people: graph and module
};

struct Alias {
  std::string tenant;
  Digest front_end_key{};
  Digest content_key{};
  int64_t created_unix_seconds = 0;
  std::vector<KeyFactor> factors;  // of the front-end key
  std::string label;               // for people: graph and module

  bool operator==(const Alias&) const = default;
};

inline constexpr uint32_t kAliasVersion = 1;
inline constexpr size_t kMaxAliasBytes = 1 << 20;
inline constexpr size_t kMaxLabelBytes = 256;

// Returns the id under which a store files an alias. Each tenant and front-end key has one.
Digest AliasId(std::string_view tenant, const Digest& front_end_key);

// Returns INVALID_ARGUMENT if a field is above its limit.
absl::StatusOr<Bytes> EncodeAlias(const Alias& alias);
// DATA_LOSS: the bytes are damaged, or a field is above its limit. NOT_FOUND: the alias has another
// version and is a miss.
absl::StatusOr<Alias> DecodeAlias(std::span<const uint8_t> bytes);

// `alias` is the decoded form of `signed_record.record`.
struct AliasRecord {
  SignedRecord signed_record;
  Alias alias;

  Digest id() const { return AliasId(alias.tenant, alias.front_end_key); }
  uint64_t size_bytes() const { return signed_record.record.size(); }
  bool operator==(const AliasRecord&) const = default;
};

absl::StatusOr<AliasRecord> MakeAliasRecord(SignedRecord signed_record);

}  // namespace hpu::store
