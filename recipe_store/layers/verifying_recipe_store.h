// Nothing unverified comes out: checks signature and digests of what the store below answers, and
// takes damaged entries out of service.
#pragma once

#include <atomic>

#include "recipe_store/layers/forwarding_recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::store {

class VerifyingRecipeStore : public ForwardingRecipeStore {
 public:
  // `trusted` must live longer; what its keyring is at the time of a call counts.
  VerifyingRecipeStore(std::unique_ptr<RecipeStore> inner, const TrustedKeys* trusted)
      : ForwardingRecipeStore(std::move(inner)), trusted_(trusted) {}

  // DATA_LOSS: digest or signature wrong, or the store below says so; the entry is quarantined, so
  // the next Get is a miss. NOT_FOUND also for entries signed by a key that is not trusted: they
  // may be good for someone, but not for us.
  absl::StatusOr<Entry> Get(const Digest& key) override;
  // Refuses entries that Get would refuse.
  absl::Status Put(const Entry& entry) override;
  // NOT_FOUND for what Get refuses, and for an alias that was filed under another one's id. Damaged
  // ones are dropped: they cost a capture.
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::StatusOr<Entry> Peek(const Digest& key) override;
  // PERMISSION_DENIED: signed by a key that is not trusted, which Get takes for a miss.
  absl::Status Verify(const Digest& key) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // What the store below answered for `key`, if it is as a trusted signer made it; else it is
  // quarantined. PERMISSION_DENIED: signed by another.
  absl::StatusOr<Entry> Checked(const Digest& key, absl::StatusOr<Entry> entry);

  const TrustedKeys* const trusted_;
  std::atomic<uint64_t> damaged_{0};
  std::atomic<uint64_t> untrusted_{0};
  std::atomic<uint64_t> bad_aliases_{0};
};

}  // namespace hpu::store
