// The aliases of all tenants: finds a program by its front-end key, and files such keys. A fault of
// the store costs a client a capture, never a request.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/signing.h"

namespace hpu::server {

// That a tenant has had this content compiled, or was given it: named by the content key itself.
inline bool IsClaim(const store::Alias& alias) { return alias.front_end_key == alias.content_key; }

class AliasBook {
 public:
  // `store` and `signing_key` must live longer.
  AliasBook(store::RecipeStore* store, const store::SigningKey* signing_key)
      : store_(store), signing_key_(signing_key) {}

  // NOT_FOUND = miss.
  absl::StatusOr<store::AliasRecord> Find(const std::string& tenant, const Digest& front_end_key);

  // Makes the front-end key name this program. An alias that named another one is replaced, counted
  // and logged: two graphs of the tenant claim one key, or its meaning has changed. The alias is
  // good even where the store did not keep it, which is logged. INVALID_ARGUMENT as EncodeAlias.
  absl::StatusOr<store::AliasRecord> File(const std::string& tenant,
                                          const store::FrontEndKey& front_end,
                                          const Digest& content_key);

  // Only what names this very program is a claim to it: a client may choose any front-end key.
  bool HasClaim(const std::string& tenant, const Digest& content_key);
  // As File, where there is none.
  void Claim(const std::string& tenant, const Digest& content_key);

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  absl::StatusOr<store::AliasRecord> Sign(const std::string& tenant,
                                          const store::FrontEndKey& front_end,
                                          const Digest& content_key) const;

  store::RecipeStore* const store_;
  const store::SigningKey* const signing_key_;
  std::atomic<uint64_t> replaced_{0};
};

}  // namespace hpu::server
