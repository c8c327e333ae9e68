#include "recipe_store/verifying_recipe_store.h"

#include <algorithm>

#include "base/log.h"

namespace hpu::store {

absl::StatusOr<Entry> VerifyingRecipeStore::Get(const Digest& key) {
  absl::StatusOr<Entry> entry = inner_->Get(key);
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
  if (absl::Status status = inner_->Quarantine(key, ToText(verdict)); !status.ok()) {
    HPU_LOG(kWarning, "quarantine failed key=" << ToHex(key) << " error=" << ToText(status));
  }
  return verdict;
}

absl::Status VerifyingRecipeStore::Put(const Entry& entry) {
  RETURN_IF_ERROR(VerifySignature(entry.signed_manifest, trusted_));
  RETURN_IF_ERROR(CheckDigests(entry));
  return inner_->Put(entry);
}

absl::StatusOr<std::vector<bool>> VerifyingRecipeStore::Contains(std::span<const Digest> keys) {
  return inner_->Contains(keys);
}

absl::StatusOr<Blob> VerifyingRecipeStore::GetBlob(const Digest& digest) {
  ASSIGN_OR_RETURN(Blob blob, inner_->GetBlob(digest));
  if (Sha256(*blob) == digest) return blob;
  ++damaged_;
  return DataLoss("blob ", ToHex(digest), " does not have its digest");
}

absl::StatusOr<std::vector<Manifest>> VerifyingRecipeStore::List(size_t limit) {
  return inner_->List(limit);
}

absl::Status VerifyingRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  return inner_->Quarantine(key, reason);
}

absl::Status VerifyingRecipeStore::Flush() { return inner_->Flush(); }

void VerifyingRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["verifying.damaged"] += damaged_;
  counters["verifying.untrusted"] += untrusted_;
  inner_->AddCounters(counters);
}

}  // namespace hpu::store
