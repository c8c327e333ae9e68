#include "base/hash.h"

#include <sodium.h>

#include <cstring>

namespace hpu {

static_assert(sizeof(crypto_hash_sha256_state) <= 128);

namespace {
crypto_hash_sha256_state* State(unsigned char* bytes) {
  return reinterpret_cast<crypto_hash_sha256_state*>(bytes);
}
}  // namespace

Hasher::Hasher() { crypto_hash_sha256_init(State(state_)); }

Hasher& Hasher::Raw(const void* data, size_t size) {
  crypto_hash_sha256_update(State(state_), static_cast<const unsigned char*>(data), size);
  return *this;
}

Hasher& Hasher::Field(std::string_view text) {
  Number(static_cast<int64_t>(text.size()));
  return Raw(text.data(), text.size());
}

Hasher& Hasher::Number(int64_t value) { return Raw(&value, sizeof(value)); }

Digest Hasher::Finish() {
  Digest digest;
  crypto_hash_sha256_final(State(state_), digest.data());
  return digest;
}

Digest Sha256(std::span<const uint8_t> data) {
  Digest digest;
  crypto_hash_sha256(digest.data(), data.data(), data.size());
  return digest;
}

std::string ToHex(std::span<const uint8_t> data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(data.size() * 2);
  for (uint8_t byte : data) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::optional<Digest> DigestFromHex(std::string_view hex) {
  Digest digest;
  if (hex.size() != digest.size() * 2) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    int nibble = 0;
    if (c >= '0' && c <= '9') {
      nibble = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      nibble = c - 'a' + 10;
    } else {
      return std::nullopt;
    }
    digest[i / 2] = static_cast<uint8_t>(i % 2 == 0 ? nibble << 4 : digest[i / 2] | nibble);
  }
  return digest;
}

}  // namespace hpu
