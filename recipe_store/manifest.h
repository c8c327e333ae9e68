// Manifest: binds a key to the digests of a program and its recipes, and says who made them how.
// The signature covers the manifest's bytes, hence key and content: neither can be swapped
// (docs/formats.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"

namespace hpu::store {

struct BlobRef {
  Digest digest{};  // SHA-256 of the blob
  uint64_t size_bytes = 0;

  bool operator==(const BlobRef&) const = default;
};

// One ordered ingredient of the key, kept so that a miss can be explained.
struct KeyFactor {
  std::string name;
  std::string value;

  bool operator==(const KeyFactor&) const = default;
};

struct Manifest {
  Digest key{};
  BlobRef program;               // program/program.h container
  std::vector<BlobRef> recipes;  // in the order of Program::recipes
  std::string compiler_build_id;
  std::string device_kind;  // "gaudi2"
  std::string isa_level;    // "x86-64-v3"; empty for a real device
  uint64_t compile_micros = 0;
  int64_t created_unix_seconds = 0;
  std::vector<KeyFactor> factors;

  bool operator==(const Manifest&) const = default;
};

inline constexpr uint32_t kManifestVersion = 1;
inline constexpr size_t kMaxManifestBytes = 4 << 20;
inline constexpr size_t kMaxRecipes = 1 << 16;
inline constexpr uint64_t kMaxBlobBytes = uint64_t{4} << 30;

// INVALID_ARGUMENT if a field is above its limit: such a manifest could not be read back.
absl::StatusOr<Bytes> EncodeManifest(const Manifest& manifest);

// DATA_LOSS: damaged bytes or a field beyond its limit. NOT_FOUND: another manifest version, which
// is a miss and never an error, because builds of several versions may share a store.
absl::StatusOr<Manifest> DecodeManifest(std::span<const uint8_t> bytes);

// Bytes of a manifest exactly as they were signed; protobuf has no canonical form, so they are kept
// and never rebuilt.
struct SignedManifest {
  Bytes manifest;
  Bytes signature;   // 64 bytes, Ed25519
  Bytes public_key;  // 32 bytes, of the signer

  bool operator==(const SignedManifest&) const = default;
};

// The form in which a store keeps it: a serialised hpu.wire.SignedManifest.
Bytes EncodeSignedManifest(const SignedManifest& signed_manifest);
absl::StatusOr<SignedManifest> DecodeSignedManifest(std::span<const uint8_t> bytes);

}  // namespace hpu::store
