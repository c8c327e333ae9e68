// The aliases of one tenant: finds a program by its front-end key, and files such keys. A fault of
// the store costs a client a capture, never a request.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"
#include "recipe_store/signing.h"

namespace hpu::server {

// What a client hands in beside its graph.
struct FrontEnd {
  Digest key{};
  std::vector<store::KeyFactor> factors;
  std::string label;
};

class AliasBook {
 public:
  // `store` and `signing_key` must live longer. `tenant` is whom the server takes its clients for.
  AliasBook(store::RecipeStore* store, const store::SigningKey* signing_key, std::string tenant)
      : store_(store), signing_key_(signing_key), tenant_(std::move(tenant)) {}

  // NOT_FOUND = miss.
  absl::StatusOr<store::AliasRecord> Find(const Digest& front_end_key);

  // Makes the front-end key name this program. An alias that named another one is replaced, counted
  // and logged: two graphs of the tenant claim one key, or its meaning has changed.
  void File(const FrontEnd& front_end, const Digest& content_key);

  // Aliases of the tenant by content key, oldest first.
  absl::StatusOr<std::map<Digest, std::vector<store::Alias>>> ByProgram();

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  absl::Status Write(const FrontEnd& front_end, const Digest& content_key);

  store::RecipeStore* const store_;
  const store::SigningKey* const signing_key_;
  const std::string tenant_;
  std::atomic<uint64_t> replaced_{0};
};

}  // namespace hpu::server
