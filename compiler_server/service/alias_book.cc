#include "compiler_server/service/alias_book.h"

#include <chrono>

#include "base/log.h"

namespace hpu::server {

absl::StatusOr<store::AliasRecord> AliasBook::Find(const Digest& front_end_key) {
  return store_->GetAlias(store::AliasId(tenant_, front_end_key));
}

void AliasBook::File(const FrontEnd& front_end, const Digest& content_key) {
  const absl::StatusOr<store::AliasRecord> known = Find(front_end.key);
  if (known.ok() && known->alias.content_key == content_key) return;
  const absl::Status written = Write(front_end, content_key);
  if (!written.ok()) {
    HPU_LOG(kWarning, "alias not kept front_end_key=" << ToHex(front_end.key)
                                                      << " error=" << ToText(written));
    return;
  }
  if (!known.ok()) return;
  ++replaced_;
  HPU_LOG(kWarning, "alias replaced front_end_key=" << ToHex(front_end.key) << " tenant=" << tenant_
                                                    << " key=" << ToHex(content_key)
                                                    << " was=" << ToHex(known->alias.content_key)
                                                    << " label=" << front_end.label
                                                    << " was_label=" << known->alias.label);
}

absl::Status AliasBook::Write(const FrontEnd& front_end, const Digest& content_key) {
  store::Alias alias;
  alias.tenant = tenant_;
  alias.front_end_key = front_end.key;
  alias.content_key = content_key;
  alias.created_unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count();
  alias.factors = front_end.factors;
  alias.label = front_end.label;
  ASSIGN_OR_RETURN(Bytes encoded, store::EncodeAlias(alias));
  return store_->PutAlias(
      {signing_key_->Sign(store::RecordKind::kAlias, std::move(encoded)), std::move(alias)});
}

absl::StatusOr<std::map<Digest, std::vector<store::Alias>>> AliasBook::ByProgram() {
  ASSIGN_OR_RETURN(std::vector<store::Alias> aliases, store_->ListAliases());
  std::map<Digest, std::vector<store::Alias>> by_program;
  for (store::Alias& alias : aliases) {
    if (alias.tenant == tenant_) by_program[alias.content_key].push_back(std::move(alias));
  }
  return by_program;
}

void AliasBook::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["alias.replaced"] += replaced_;
}

}  // namespace hpu::server
