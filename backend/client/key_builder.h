// The front-end key of a graph is the SHA-256 over named fields in order. The same fields are kept
// as text, so that every miss can be explained (docs/cache_key.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "recipe_store/signing/content_key.h"

namespace hpu::client {

class KeyBuilder {
 public:
  KeyBuilder();

  // The kind of the value is hashed with it, so 1 and "1" differ. Long values are shown by their
  // digest.
  void AddText(std::string_view name, std::string_view value);
  void AddNumber(std::string_view name, int64_t value);
  void AddBytes(std::string_view name, std::span<const uint8_t> value);

  const std::vector<store::KeyFactor>& factors() const { return factors_; }
  // The digest of the fields added so far; more may follow.
  Digest digest() const;

 private:
  Hasher hasher_;
  std::vector<store::KeyFactor> factors_;
};

}  // namespace hpu::client
