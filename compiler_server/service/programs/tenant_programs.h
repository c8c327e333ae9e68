// Which tenant sees which program: everything that the service reads and files for a caller goes
// through here. Where tenants do not share, a tenant sees a program if one of its aliases names it.
// One such alias, the claim, has the content key itself in place of a front-end key, so that it is
// found by the content in every engine: whoever has had a graph compiled has it again, by whatever
// name; whoever has not compiles, and is not told that the program is there already.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compile_client/rpc_client.h"
#include "compiler_server/service/callers/caller.h"
#include "compiler_server/service/programs/alias_book.h"
#include "compiler_server/service/programs/hit_counts.h"

namespace hpu::server {

class TenantPrograms {
 public:
  // `store` and `aliases` must live longer. `claims`: file them also where all is shared,
  // because tenants have shares of the store. `own_tenant`: as whom this server is known to others.
  TenantPrograms(store::RecipeStore* store, AliasBook* aliases, bool shared, bool claims,
                 std::string own_tenant)
      : store_(store),
        aliases_(aliases),
        shared_(shared),
        claims_(claims || !shared),
        own_tenant_(std::move(own_tenant)) {}

  bool shared() const { return shared_; }
  // Servers upstream take all that we ask for to be one tenant's.
  bool MayAskUpstream(const std::string& tenant) const { return shared_ || tenant == own_tenant_; }

  // What tells compilations, their verdicts, leases and hits apart: the key, and where tenants do
  // not share, whose it is.
  Digest ScopeOf(const std::string& tenant, const Digest& key) const {
    return shared_ ? key : store::AliasId(tenant, key);
  }

  // By content key. NOT_FOUND: a miss, or not the tenant's. Else as RecipeStore::Get.
  absl::StatusOr<store::Entry> Get(const std::string& tenant, const Digest& key);
  // As RecipeStore::Put; from now on the tenant sees it.
  absl::Status Put(const std::string& tenant, const store::Entry& entry);

  void CountHit(const std::string& tenant, const Digest& key);
  // Of a list.
  struct Seen {
    store::ListPosition position;
    std::optional<client::Listed> program;  // nothing: it is not the tenant's
  };
  // As RecipeStore::List, with the names of the caller's tenant. Administrators, who look after the
  // whole server, see programs of all tenants.
  absl::StatusOr<std::vector<Seen>> List(const Caller& caller, size_t limit,
                                         const std::optional<store::ListPosition>& after);

 private:
  store::RecipeStore* const store_;
  AliasBook* const aliases_;
  const bool shared_;
  const bool claims_;
  const std::string own_tenant_;
  HitCounts hits_;  // by content key, and by scope
};

}  // namespace hpu::server
