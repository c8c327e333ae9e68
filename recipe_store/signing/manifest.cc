#include "recipe_store/signing/manifest.h"

#include "compile_service.pb.h"

namespace hpu::store {
namespace {

constexpr size_t kMaxTextBytes = 256;  // build id, device kind, ISA level, option
constexpr int kMaxOptions = 1 << 10;

absl::Status CheckText(const std::string& text, const char* field) {
  if (text.size() <= kMaxTextBytes) return absl::OkStatus();
  return DataLoss("manifest field ", field, " has ", text.size(), " bytes; at most ", kMaxTextBytes,
                  " are allowed");
}

absl::Status CheckSize(uint64_t size, const char* field) {
  if (size <= kMaxBlobBytes) return absl::OkStatus();
  return DataLoss("manifest field ", field, " names a blob of ", size, " bytes; at most ",
                  kMaxBlobBytes, " are allowed");
}

absl::Status CheckLimits(const Manifest& manifest) {
  RETURN_IF_ERROR(CheckText(manifest.content.compiler_build_id, "compiler_build_id"));
  RETURN_IF_ERROR(CheckText(manifest.content.device_kind, "device_kind"));
  RETURN_IF_ERROR(CheckText(manifest.content.isa_level, "isa_level"));
  for (const auto& [name, value] : manifest.content.options) {
    RETURN_IF_ERROR(CheckText(name, "options"));
    RETURN_IF_ERROR(CheckText(value, "options"));
  }
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
  message.set_program_digest(ToString(manifest.program.digest));
  message.set_program_size(manifest.program.size_bytes);
  for (const BlobRef& recipe : manifest.recipes) {
    wire::BlobRef* ref = message.add_recipes();
    ref->set_digest(ToString(recipe.digest));
    ref->set_size(recipe.size_bytes);
  }
  message.set_compiler_build_id(manifest.content.compiler_build_id);
  message.set_device_kind(manifest.content.device_kind);
  message.set_isa_level(manifest.content.isa_level);
  message.set_compile_micros(manifest.compile_micros);
  message.set_created_unix_seconds(manifest.created_unix_seconds);
  message.set_graph_digest(ToString(manifest.content.graph));
  for (const auto& [name, value] : manifest.content.options) {
    wire::CompileOption* option = message.add_options();
    option->set_name(name);
    option->set_value(value);
  }
  if (message.ByteSizeLong() > kMaxManifestBytes) {
    return InvalidArgument("the manifest would have ", message.ByteSizeLong(), " bytes; at most ",
                           kMaxManifestBytes, " are allowed");
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
  if (message.options_size() > kMaxOptions) {
    return DataLoss("manifest has ", message.options_size(), " options; at most ", kMaxOptions,
                    " are allowed");
  }
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.program.digest,
                   ReadDigest(message.program_digest(), "manifest field program_digest"));
  manifest.program.size_bytes = message.program_size();
  manifest.recipes.resize(static_cast<size_t>(message.recipes_size()));
  for (int i = 0; i < message.recipes_size(); ++i) {
    BlobRef& recipe = manifest.recipes[static_cast<size_t>(i)];
    ASSIGN_OR_RETURN(recipe.digest,
                     ReadDigest(message.recipes(i).digest(), "manifest field recipes"));
    recipe.size_bytes = message.recipes(i).size();
  }
  ASSIGN_OR_RETURN(manifest.content.graph,
                   ReadDigest(message.graph_digest(), "manifest field graph_digest"));
  manifest.content.compiler_build_id = message.compiler_build_id();
  manifest.content.device_kind = message.device_kind();
  manifest.content.isa_level = message.isa_level();
  for (const wire::CompileOption& option : message.options()) {
    manifest.content.options.emplace_back(option.name(), option.value());
  }
  manifest.compile_micros = message.compile_micros();
  manifest.created_unix_seconds = message.created_unix_seconds();
  RETURN_IF_ERROR(CheckLimits(manifest));
  return manifest;
}

}  // namespace hpu::store
