// A manifest binds the ingredients of a program to the digests of the program and its recipes. The
// content key is not written down, because it follows from the ingredients: no manifest can claim
// another one (docs/formats.md).
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "recipe_store/signing/content_key.h"
#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

struct BlobRef {
  Digest digest{};  // SHA-256 of the blob
  uint64_t size_bytes = 0;

  bool operator==(const BlobRef&) const = default;
};

struct Manifest {
  Content content;
  BlobRef program;               // program/program.h container
  std::vector<BlobRef> recipes;  // in the order of Program::recipes
  uint64_t compile_micros = 0;
  int64_t created_unix_seconds = 0;

  // Returns the content key.
  Digest key() const { return ContentKey(content); }
  bool operator==(const Manifest&) const = default;
};

// Lists go by time, the newest first, and by key within a second. A ListPosition is a place in that
// order.
struct ListPosition {
  int64_t created_unix_seconds = 0;
  Digest key{};

  auto operator<=>(const ListPosition&) const = default;
};
inline ListPosition PositionOf(const Manifest& manifest) {
  return {manifest.created_unix_seconds, manifest.key()};
}

inline constexpr uint32_t kManifestVersion = 2;
inline constexpr size_t kMaxManifestBytes = kMaxRecordBytes;
inline constexpr size_t kMaxRecipes = 1 << 16;
inline constexpr uint64_t kMaxBlobBytes = uint64_t{4} << 30;

// Returns INVALID_ARGUMENT if a field is above its limit, because such a manifest could not be read
// back.
absl::StatusOr<Bytes> EncodeManifest(const Manifest& manifest);

// DATA_LOSS: the bytes are damaged, or a field is above its limit. NOT_FOUND: the manifest has
// another version, which is a miss and never an error, because builds of several versions may share
// a store.
absl::StatusOr<Manifest> DecodeManifest(std::span<const uint8_t> bytes);

}  // namespace hpu::store
