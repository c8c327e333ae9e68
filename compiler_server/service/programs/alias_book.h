// The aliases of all tenants: finds a program by its front-end key, and stores such keys. A fault
// of the store costs a client a capture, but never fails a request.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "recipe_store/signing/signing.h"

namespace hpu::server {

// A claim says that a tenant has had this content compiled, or was given it. Its front-end key is
// the content key itself.
inline bool IsClaim(const store::Alias& alias) { return alias.front_end_key == alias.content_key; }

class AliasBook {
 public:
  // `store` and `signing_key` must live longer.
  AliasBook(store::AliasStore* store, const store::SigningKey* signing_key)
      : store_(store), signing_key_(signing_key) {}

  // NOT_FOUND = miss.
  absl::StatusOr<store::AliasRecord> Find(const std::string& tenant, const Digest& front_end_key);

  // Makes the front-end key name this program. An alias that named another program is replaced,
  // counted and logged: either two graphs of the tenant have the same key, or its meaning has
  // changed. The returned alias is valid even if the store did not keep it, which is logged.
  // Returns INVALID_ARGUMENT as EncodeAlias does.
  absl::StatusOr<store::AliasRecord> File(const std::string& tenant,
                                          const store::FrontEndKey& front_end,
                                          const Digest& content_key);

  // An alias counts as a claim only if it names this very program, because a client may choose any
  // front-end key.
  bool HasClaim(const std::string& tenant, const Digest& content_key);
  // Stores a claim, as File does, if there is none.
  void Claim(const std::string& tenant, const Digest& content_key);

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  absl::StatusOr<store::AliasRecord> Sign(const std::string& tenant,
                                          const store::FrontEndKey& front_end,
                                          const Digest& content_key) const;

  store::AliasStore* const store_;
  const store::SigningKey* const signing_key_;
  std::atomic<uint64_t> replaced_{0};
};

}  // namespace hpu::server
