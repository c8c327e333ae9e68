// Decides which tenant sees which program: everything that the service reads and stores for a
// caller goes through here. Where tenants do not share, a tenant sees a program if one of its
// aliases names it. One such alias, the claim, has the content key itself in place of a front-end
// key, so that it is found by the content in every engine. A tenant that has had a graph compiled
// gets it again, by whatever name; one that has not must compile it, and does not learn that the
// program exists already.
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
  // `store` and `aliases` must live longer. `claims` also stores claims where everything is shared,
  // because tenants have shares of the store. `own_tenant` is the tenant that other servers take
  // this server for.
  TenantPrograms(store::RecipeStore* store, AliasBook* aliases, bool shared, bool claims,
                 std::string own_tenant)
      : store_(store),
        aliases_(aliases),
        shared_(shared),
        claims_(claims || !shared),
        own_tenant_(std::move(own_tenant)) {}

  bool shared() const { return shared_; }
  // Servers upstream take everything that we ask for to be for one tenant.
  bool MayAskUpstream(const std::string& tenant) const { return shared_ || tenant == own_tenant_; }

  // Tells compilations, verdicts, leases and hits apart: by the key, and by the tenant as well
  // where tenants do not share.
  Digest ScopeOf(const std::string& tenant, const Digest& key) const {
    return shared_ ? key : store::AliasId(tenant, key);
  }

  // Finds a program by its content key. Returns NOT_FOUND for a miss and for a program that is not
  // the tenant's, and other errors as RecipeStore::Get does.
  absl::StatusOr<store::Entry> Get(const std::string& tenant, const Digest& key);
  // Stores a program as RecipeStore::Put does. From then on the tenant sees it.
  absl::Status Put(const std::string& tenant, const store::Entry& entry);

  void CountHit(const std::string& tenant, const Digest& key);
  // One program of a list.
  struct Seen {
    store::ListPosition position;
    std::optional<client::Listed> program;  // empty if it is not the tenant's
  };
  // Lists programs as RecipeStore::List does, with the names that the caller's tenant has for them.
  // Administrators, who look after the whole server, see the programs of all tenants.
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
