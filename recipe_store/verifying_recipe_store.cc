#include "recipe_store/verifying_recipe_store.h"

#include <algorithm>

#include "base/log.h"

namespace hpu::store {

absl::StatusOr<Entry> VerifyingRecipeStore::Get(const Digest& key) {
  absl::StatusOr<Entry> entry = ForwardingRecipeStore::Get(key);
  absl::Status verdict = entry.status();
  if (entry.ok()) {
    if (!std::ranges::equal(entry->signed_manifest.public_key, trusted_)) {
      ++untrusted_;
      return NotFound("key ", ToHex(key), " is in the store, but signed by another key");
    }
    verdict = VerifySignature(entry->signed_manifest, trusted_);
    if (verdict.ok()) verdict = CheckDigests(*entry);
    if (verdict.ok()) return entry;
    verdict = DataLoss(std::string(verdict.message()));
  }
  if (!absl::IsDataLoss(verdict)) return verdict;
  ++damaged_;
  HPU_LOG(kError,
          "store entry damaged, quarantined key=" << ToHex(key) << " error=" << ToText(verdict));
  if (absl::Status status = ForwardingRecipeStore::Quarantine(key, ToText(verdict)); !status.ok()) {
    HPU_LOG(kWarning, "quarantine failed key=" << ToHex(key) << " error=" << ToText(status));
  }
  return verdict;
}

absl::Status VerifyingRecipeStore::Put(const Entry& entry) {
  RETURN_IF_ERROR(VerifySignature(entry.signed_manifest, trusted_));
  RETURN_IF_ERROR(CheckDigests(entry));
  return ForwardingRecipeStore::Put(entry);
}

absl::StatusOr<Blob> VerifyingRecipeStore::GetBlob(const Digest& digest) {
  ASSIGN_OR_RETURN(Blob blob, ForwardingRecipeStore::GetBlob(digest));
  if (Sha256(*blob) == digest) return blob;
  ++damaged_;
  return DataLoss("blob ", ToHex(digest), " does not have its digest");
}

void VerifyingRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["verifying.damaged"] += damaged_;
  counters["verifying.untrusted"] += untrusted_;
  ForwardingRecipeStore::AddCounters(counters);
}

}  // namespace hpu::store
