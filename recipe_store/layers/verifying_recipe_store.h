// VerifyingRecipeStore lets nothing unverified out: it checks signature and digests of what the
// store below answers, and takes damaged entries out of service.
#pragma once

#include <atomic>

#include "recipe_store/layers/forwarding_recipe_store.h"
#include "recipe_store/signing/keyring.h"

namespace hpu::store {

// Thread-safe.
class VerifyingRecipeStore : public ForwardingRecipeStore {
 public:
  // `trusted` must outlive this object. Each call uses the keyring that `trusted` has at that time.
  VerifyingRecipeStore(std::unique_ptr<RecipeStore> inner, const TrustedKeys* trusted)
      : ForwardingRecipeStore(std::move(inner)), trusted_(trusted) {}

  // DATA_LOSS: the digest or the signature is wrong, or the store below says so. The entry is
  // quarantined then, so the next Get is a miss. An entry that is signed by a key that is not
  // trusted is NOT_FOUND, because it may be good for someone else; for kVerify it is
  // PERMISSION_DENIED.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  // PERMISSION_DENIED, DATA_LOSS: Get would refuse the entry.
  absl::Status Put(const Entry& entry) override;
  // An alias that Get would refuse is NOT_FOUND, and so is one that was filed under the id of
  // another alias. Damaged aliases are dropped, which costs a capture.
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  // PERMISSION_DENIED: no trusted key has signed the alias.
  absl::Status PutAlias(const AliasRecord& alias) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // Returns what the store below answered for `key` if it is as a trusted signer made it, and
  // quarantines it otherwise. PERMISSION_DENIED: a key that is not trusted has signed it.
  absl::StatusOr<Entry> Checked(const Digest& key, absl::StatusOr<Entry> entry);

  const TrustedKeys* const trusted_;
  std::atomic<uint64_t> damaged_{0};
  std::atomic<uint64_t> untrusted_{0};
  std::atomic<uint64_t> bad_aliases_{0};
};

}  // namespace hpu::store
