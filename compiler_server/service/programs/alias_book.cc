#include "compiler_server/service/programs/alias_book.h"

#include <chrono>

#include "base/log.h"

namespace hpu::server {

absl::StatusOr<store::AliasRecord> AliasBook::Find(const std::string& tenant,
                                                   const Digest& front_end_key) {
  return store_->GetAlias(store::AliasId(tenant, front_end_key));
}

absl::StatusOr<store::AliasRecord> AliasBook::File(const std::string& tenant,
                                                   const store::FrontEndKey& front_end,
                                                   const Digest& content_key) {
  absl::StatusOr<store::AliasRecord> known = Find(tenant, front_end.key);
  if (known.ok() && known->alias.content_key == content_key) return known;
  ASSIGN_OR_RETURN(store::AliasRecord record, Sign(tenant, front_end, content_key));
  if (const absl::Status kept = store_->PutAlias(record); !kept.ok()) {
    HPU_LOG(kWarning,
            "alias not kept front_end_key=" << ToHex(front_end.key) << " error=" << ToText(kept));
  } else if (known.ok()) {
    ++replaced_;
    HPU_LOG(kWarning, "alias replaced front_end_key="
                          << ToHex(front_end.key) << " tenant=" << tenant << " key="
                          << ToHex(content_key) << " was=" << ToHex(known->alias.content_key)
                          << " label=" << front_end.label << " was_label=" << known->alias.label);
  }
  return record;
}

bool AliasBook::HasClaim(const std::string& tenant, const Digest& content_key) {
  const absl::StatusOr<store::AliasRecord> found = Find(tenant, content_key);
  return found.ok() && found->alias.content_key == content_key;
}

void AliasBook::Claim(const std::string& tenant, const Digest& content_key) {
  File(tenant, {content_key, {}, ""}, content_key).status().IgnoreError();
}

absl::StatusOr<store::AliasRecord> AliasBook::Sign(const std::string& tenant,
                                                   const store::FrontEndKey& front_end,
                                                   const Digest& content_key) const {
  store::Alias alias;
  alias.tenant = tenant;
  alias.front_end_key = front_end.key;
  alias.content_key = content_key;
  alias.created_unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  alias.factors = front_end.factors;
  alias.label = front_end.label;
  ASSIGN_OR_RETURN(Bytes encoded, store::EncodeAlias(alias));
  return store::AliasRecord{signing_key_->Sign(store::RecordKind::kAlias, std::move(encoded)),
                            std::move(alias)};
}

void AliasBook::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["alias.replaced"] += replaced_;
}

}  // namespace hpu::server
