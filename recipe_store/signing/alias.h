// Alias: a tenant's front-end key of a program, and what the program is called there. Small, signed
// and private to its tenant: a wrong alias misleads nobody but the tenant that wrote it.
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

// What a front end knows a program by before it has captured a graph.
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

// What a store files it under: one per tenant and front-end key.
Digest AliasId(std::string_view tenant, const Digest& front_end_key);

// INVALID_ARGUMENT if a field is above its limit.
absl::StatusOr<Bytes> EncodeAlias(const Alias& alias);
// DATA_LOSS: damaged bytes or a field beyond its limit. NOT_FOUND: another version, a miss.
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
