#include "compiler_server/service/tenant_programs.h"

#include <set>

namespace hpu::server {

absl::StatusOr<store::Entry> TenantPrograms::Get(const std::string& tenant, const Digest& key) {
  if (!shared_ && !aliases_->HasClaim(tenant, key)) {
    return NotFound("tenant ", tenant, " has no program ", ToHex(key));
  }
  return store_->Get(key);
}

absl::Status TenantPrograms::Put(const std::string& tenant, const store::Entry& entry) {
  // A disk that cannot be written is no reason not to keep it elsewhere.
  const absl::Status room = claims_ ? store_->MakeRoom(tenant, entry) : absl::OkStatus();
  if (absl::IsResourceExhausted(room)) return room;
  const absl::Status kept = store_->Put(entry);
  if (claims_) aliases_->Claim(tenant, entry.manifest.key());
  return kept;
}

void TenantPrograms::CountHit(const std::string& tenant, const Digest& key) {
  hits_.Add(key);
  if (!shared_) hits_.Add(ScopeOf(tenant, key));
}

absl::StatusOr<std::vector<client::Listed>> TenantPrograms::List(const Caller& caller,
                                                                 uint32_t limit) {
  const bool all = caller.Has(Role::kAdmin);
  ASSIGN_OR_RETURN(const std::vector<store::Manifest> manifests, store_->List(all ? limit : 0));
  ASSIGN_OR_RETURN(auto aliases, aliases_->ByProgram(caller.tenant));
  const std::vector<Digest> pinned = store_->Pinned().value_or(std::vector<Digest>());
  const std::set<Digest> kept(pinned.begin(), pinned.end());
  std::vector<client::Listed> listed;
  for (const store::Manifest& manifest : manifests) {
    if (limit != 0 && listed.size() == limit) break;
    const Digest key = manifest.key();
    const auto known = aliases.find(key);
    // Programs that only other tenants have names for are theirs.
    if (known == aliases.end() && !all) continue;
    client::Listed& program = listed.emplace_back();
    program.manifest = manifest;
    if (known != aliases.end()) {
      program.aliases = std::move(known->second);
      std::erase_if(program.aliases, IsClaim);
    }
    program.hits = hits_.Of(all ? key : ScopeOf(caller.tenant, key));
    program.pinned = kept.contains(key);
  }
  return listed;
}

}  // namespace hpu::server
