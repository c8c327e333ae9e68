// SHA-256, the one hash of the project. It makes keys and digests, and was chosen because REAPI
// uses it too.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hpu {

using Digest = std::array<uint8_t, 32>;

// Incremental SHA-256. Field() hashes length and bytes, so that ("ab","c") differs from ("a","bc").
class Hasher {
 public:
  Hasher();
  Hasher& Raw(const void* data, size_t size);
  Hasher& Field(std::string_view text);
  Hasher& Number(int64_t value);
  Digest Finish();

 private:
  alignas(16) unsigned char state_[128];
};

Digest Sha256(std::span<const uint8_t> data);
std::string ToHex(std::span<const uint8_t> data);
std::optional<Digest> DigestFromHex(std::string_view hex);

}  // namespace hpu
