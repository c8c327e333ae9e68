#include "recipe_store/manifest.h"

#include <algorithm>

#include "compile_service.pb.h"

namespace hpu::store {
namespace {

constexpr size_t kMaxTextBytes = 256;  // build id, device kind, ISA level
constexpr int kMaxFactors = 1 << 16;
constexpr size_t kSignatureBytes = 64;
constexpr size_t kPublicKeyBytes = 32;

Bytes ToBytes(const std::string& text) { return Bytes(text.begin(), text.end()); }

std::string ToString(std::span<const uint8_t> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::Status CheckText(const std::string& text, const char* field) {
  if (text.size() <= kMaxTextBytes) return absl::OkStatus();
  return DataLoss("manifest field ", field, " has ", text.size(), " bytes; at most ", kMaxTextBytes,
                  " are allowed");
}

absl::Status ReadDigest(const std::string& text, const char* field, Digest* digest) {
  if (text.size() != digest->size()) {
    return DataLoss("manifest field ", field, " has ", text.size(), " bytes; a digest has 32");
  }
  std::copy(text.begin(), text.end(), digest->begin());
  return absl::OkStatus();
}

absl::Status CheckSize(uint64_t size, const char* field) {
  if (size <= kMaxBlobBytes) return absl::OkStatus();
  return DataLoss("manifest field ", field, " names a blob of ", size, " bytes; at most ",
                  kMaxBlobBytes, " are allowed");
}

absl::Status CheckLimits(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckText(manifest.compiler_build_id, "compiler_build_id"));
  RETURN_IF_ERROR(CheckText(manifest.device_kind, "device_kind"));
  RETURN_IF_ERROR(CheckText(manifest.isa_level, "isa_level"));
  RETURN_IF_ERROR(CheckSize(manifest.program.size_bytes, "program_size"));
  if (manifest.recipes.size() > kMaxRecipes) {
    return DataLoss("manifest names ", manifest.recipes.size(), " recipes; at most ", kMaxRecipes,
                    " are allowed");
  }
  for (const BlobRef& recipe : manifest.recipes) {
    RETURN_IF_ERROR(CheckSize(recipe.size_bytes, "recipes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Bytes> EncodeManifest(const Manifest& manifest) {
  if (absl::Status status = CheckLimits(manifest); !status.ok()) {
    return InvalidArgument(std::string(status.message()));
  }
  wire::Manifest message;
  message.set_version(kManifestVersion);
  message.set_key(ToString(manifest.key));
  message.set_program_digest(ToString(manifest.program.digest));
  message.set_program_size(manifest.program.size_bytes);
  for (const BlobRef& recipe : manifest.recipes) {
    wire::BlobRef* ref = message.add_recipes();
    ref->set_digest(ToString(recipe.digest));
    ref->set_size(recipe.size_bytes);
  }
  message.set_compiler_build_id(manifest.compiler_build_id);
  message.set_device_kind(manifest.device_kind);
  message.set_isa_level(manifest.isa_level);
  message.set_compile_micros(manifest.compile_micros);
  message.set_created_unix_seconds(manifest.created_unix_seconds);
  for (const KeyFactor& factor : manifest.factors) {
    wire::KeyFactor* added = message.add_factors();
    added->set_name(factor.name);
    added->set_value(factor.value);
  }
  if (message.ByteSizeLong() > kMaxManifestBytes) {
    return InvalidArgument("the manifest would have ", message.ByteSizeLong(), " bytes; at most ",
                           kMaxManifestBytes, " are allowed: shorten the key factors");
  }
  return ToBytes(message.SerializeAsString());
}

absl::StatusOr<Manifest> DecodeManifest(std::span<const uint8_t> bytes) {
  if (bytes.size() > kMaxManifestBytes) {
    return DataLoss("manifest has ", bytes.size(), " bytes; at most ", kMaxManifestBytes,
                    " are allowed");
  }
  wire::Manifest message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("manifest bytes cannot be parsed");
  }
  if (message.version() != kManifestVersion) {
    return NotFound("manifest has version ", message.version(), "; this build reads version ",
                    kManifestVersion);
  }
  if (message.factors_size() > kMaxFactors) {
    return DataLoss("manifest has ", message.factors_size(), " key factors");
  }
  Manifest manifest;
  RETURN_IF_ERROR(ReadDigest(message.key(), "key", &manifest.key));
  RETURN_IF_ERROR(ReadDigest(message.program_digest(), "program_digest", &manifest.program.digest));
  manifest.program.size_bytes = message.program_size();
  manifest.recipes.resize(static_cast<size_t>(message.recipes_size()));
  for (int i = 0; i < message.recipes_size(); ++i) {
    BlobRef& recipe = manifest.recipes[static_cast<size_t>(i)];
    RETURN_IF_ERROR(ReadDigest(message.recipes(i).digest(), "recipes", &recipe.digest));
    recipe.size_bytes = message.recipes(i).size();
  }
  manifest.compiler_build_id = message.compiler_build_id();
  manifest.device_kind = message.device_kind();
  manifest.isa_level = message.isa_level();
  manifest.compile_micros = message.compile_micros();
  manifest.created_unix_seconds = message.created_unix_seconds();
  for (const wire::KeyFactor& factor : message.factors()) {
    manifest.factors.push_back({factor.name(), factor.value()});
  }
  RETURN_IF_ERROR(CheckLimits(manifest));
  return manifest;
}

Bytes EncodeSignedManifest(const SignedManifest& signed_manifest) {
  wire::SignedManifest message;
  message.set_manifest(ToString(signed_manifest.manifest));
  message.set_signature(ToString(signed_manifest.signature));
  message.set_public_key(ToString(signed_manifest.public_key));
  return ToBytes(message.SerializeAsString());
}

absl::StatusOr<SignedManifest> DecodeSignedManifest(std::span<const uint8_t> bytes) {
  wire::SignedManifest message;
  if (bytes.size() > kMaxManifestBytes + 1024 ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("signed manifest of ", bytes.size(), " bytes cannot be parsed");
  }
  if (message.signature().size() != kSignatureBytes ||
      message.public_key().size() != kPublicKeyBytes) {
    return DataLoss("signed manifest has a signature of ", message.signature().size(),
                    " and a public key of ", message.public_key().size(),
                    " bytes instead of 64 and 32");
  }
  return SignedManifest{ToBytes(message.manifest()), ToBytes(message.signature()),
                        ToBytes(message.public_key())};
}

}  // namespace hpu::store
