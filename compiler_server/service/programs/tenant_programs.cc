#include "compiler_server/service/programs/tenant_programs.h"

#include <set>

namespace hpu::server {

absl::StatusOr<store::Entry> TenantPrograms::Get(const std::string& tenant, const Digest& key) {
  if (!shared_ && !aliases_->HasClaim(tenant, key)) {
    return NotFound("tenant ", tenant, " has no program ", ToHex(key));
  }
  return store_->Get(key);
}

absl::Status TenantPrograms::Put(const std::string& tenant, const store::Entry& entry) {
  // If the disk cannot be written, the program is still kept elsewhere.
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

absl::StatusOr<std::vector<TenantPrograms::Seen>> TenantPrograms::List(
    const Caller& caller, size_t limit, const std::optional<store::ListPosition>& after) {
  const bool all = caller.Has(Role::kAdmin);
  ASSIGN_OR_RETURN(const std::vector<store::Manifest> manifests, store_->List(limit, after));
  const std::vector<Digest> pinned = store_->Pinned().value_or(std::vector<Digest>());
  const std::set<Digest> kept(pinned.begin(), pinned.end());
  std::vector<Seen> seen;
  for (const store::Manifest& manifest : manifests) {
    const Digest key = manifest.key();
    ASSIGN_OR_RETURN(std::vector<store::Alias> aliases, store_->AliasesOf(key));
    std::erase_if(aliases,
                  [&](const store::Alias& alias) { return alias.tenant != caller.tenant; });
    seen.push_back({store::PositionOf(manifest), std::nullopt});
    // Programs that only other tenants have names for belong to those.
    if (aliases.empty() && !all) continue;
    std::erase_if(aliases, IsClaim);
    client::Listed& program = seen.back().program.emplace();
    program.manifest = manifest;
    program.aliases = std::move(aliases);
    program.hits = hits_.Of(all ? key : ScopeOf(caller.tenant, key));
    program.pinned = kept.contains(key);
  }
  return seen;
}

}  // namespace hpu::server
