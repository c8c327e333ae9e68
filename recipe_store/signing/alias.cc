#include "recipe_store/signing/alias.h"

#include "compile_service.pb.h"

namespace hpu::store {
namespace {

constexpr size_t kMaxTenantBytes = 256;

absl::Status CheckLimits(const Alias& alias) {
  if (alias.tenant.empty() || alias.tenant.size() > kMaxTenantBytes) {
    return DataLoss("alias field tenant has ", alias.tenant.size(), " bytes; 1 to ",
                    kMaxTenantBytes, " are allowed");
  }
  if (alias.label.size() > kMaxLabelBytes) {
    return DataLoss("alias field label has ", alias.label.size(), " bytes; at most ",
                    kMaxLabelBytes, " are allowed");
  }
  return absl::OkStatus();
}

}  // namespace

Digest AliasId(std::string_view tenant, const Digest& front_end_key) {
  return Hasher().Field(tenant).Raw(front_end_key.data(), front_end_key.size()).Finish();
}

absl::StatusOr<Bytes> EncodeAlias(const Alias& alias) {
  if (absl::Status status = CheckLimits(alias); !status.ok()) {
    return InvalidArgument(std::string(status.message()));
  }
  wire::Alias message;
  message.set_version(kAliasVersion);
  message.set_tenant(alias.tenant);
  message.set_front_end_key(ToString(alias.front_end_key));
  message.set_content_key(ToString(alias.content_key));
  message.set_created_unix_seconds(alias.created_unix_seconds);
  for (const KeyFactor& factor : alias.factors) {
    wire::KeyFactor* added = message.add_factors();
    added->set_name(factor.name);
    added->set_value(factor.value);
  }
  message.set_label(alias.label);
  if (message.ByteSizeLong() > kMaxAliasBytes) {
    return InvalidArgument("the alias would have ", message.ByteSizeLong(), " bytes; at most ",
                           kMaxAliasBytes, " are allowed: shorten the key factors");
  }
  return ToBytes(message.SerializeAsString());
}

absl::StatusOr<Alias> DecodeAlias(std::span<const uint8_t> bytes) {
  wire::Alias message;
  if (bytes.size() > kMaxAliasBytes ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return DataLoss("alias of ", bytes.size(), " bytes cannot be parsed");
  }
  if (message.version() != kAliasVersion) {
    return NotFound("alias has version ", message.version(), "; this build reads version ",
                    kAliasVersion);
  }
  Alias alias;
  alias.tenant = message.tenant();
  ASSIGN_OR_RETURN(alias.front_end_key,
                   ReadDigest(message.front_end_key(), "alias field front_end_key"));
  ASSIGN_OR_RETURN(alias.content_key, ReadDigest(message.content_key(), "alias field content_key"));
  alias.created_unix_seconds = message.created_unix_seconds();
  for (const wire::KeyFactor& factor : message.factors()) {
    alias.factors.push_back({factor.name(), factor.value()});
  }
  alias.label = message.label();
  RETURN_IF_ERROR(CheckLimits(alias));
  return alias;
}

absl::StatusOr<AliasRecord> MakeAliasRecord(SignedRecord signed_record) {
  ASSIGN_OR_RETURN(Alias alias, DecodeAlias(signed_record.record));
  return AliasRecord{std::move(signed_record), std::move(alias)};
}

}  // namespace hpu::store
