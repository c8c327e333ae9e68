#include "recipe_store/layers/verifying_recipe_store.h"

#include "base/log.h"

namespace hpu::store {
absl::StatusOr<Entry> VerifyingRecipeStore::Find(const Digest& key, Purpose purpose) {
  // Checked verifies the digests, so the store below need not.
  const Purpose below = purpose == Purpose::kVerify ? Purpose::kInspect : purpose;
  absl::StatusOr<Entry> entry = Checked(key, ForwardingRecipeStore::Find(key, below));
  if (purpose == Purpose::kVerify || !absl::IsPermissionDenied(entry.status())) return entry;
  // The set of trusted keys may change, so an entry that is not trusted today is a miss and stays.
  return NotFound(std::string(entry.status().message()));
}

absl::StatusOr<Entry> VerifyingRecipeStore::Checked(const Digest& key,
                                                    absl::StatusOr<Entry> entry) {
  absl::Status verdict = entry.status();
  if (entry.ok()) {
    const std::shared_ptr<const Keyring> keyring = trusted_->keyring();
    if (!keyring->Trusts(entry->signed_manifest.public_key)) {
      ++untrusted_;
      return Error(absl::StatusCode::kPermissionDenied, "key ", ToHex(key),
                   " is in the store, but signed by a key not trusted");
    }
    verdict = keyring->Verify(RecordKind::kManifest, entry->signed_manifest);
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
  RETURN_IF_ERROR(trusted_->keyring()->Verify(RecordKind::kManifest, entry.signed_manifest));
  RETURN_IF_ERROR(CheckDigests(entry));
  return ForwardingRecipeStore::Put(entry);
}

absl::StatusOr<AliasRecord> VerifyingRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> alias = ForwardingRecipeStore::GetAlias(id);
  absl::Status verdict = alias.status();
  if (alias.ok()) {
    const std::shared_ptr<const Keyring> keyring = trusted_->keyring();
    if (!keyring->Trusts(alias->signed_record.public_key)) {
      ++untrusted_;
      return NotFound("alias ", ToHex(id), " is in the store, but signed by a key not trusted");
    }
    verdict = keyring->Verify(RecordKind::kAlias, alias->signed_record);
    if (verdict.ok() && alias->id() != id) {
      verdict = DataLoss("it is the alias of another tenant or front-end key, ",
                         ToHex(alias->alias.front_end_key).substr(0, 16));
    }
    if (verdict.ok()) return alias;
  } else if (!absl::IsDataLoss(verdict)) {
    return verdict;
  }
  ++bad_aliases_;
  HPU_LOG(kWarning, "alias refused and dropped id=" << ToHex(id) << " error=" << ToText(verdict));
  if (absl::Status status = ForwardingRecipeStore::DropAlias(id); !status.ok()) {
    HPU_LOG(kDebug, "alias not dropped id=" << ToHex(id) << " error=" << ToText(status));
  }
  return NotFound("the alias ", ToHex(id), " was refused: ", ToText(verdict));
}

absl::Status VerifyingRecipeStore::PutAlias(const AliasRecord& alias) {
  RETURN_IF_ERROR(trusted_->keyring()->Verify(RecordKind::kAlias, alias.signed_record));
  return ForwardingRecipeStore::PutAlias(alias);
}

void VerifyingRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["verifying.damaged"] += damaged_;
  counters["verifying.untrusted"] += untrusted_;
  counters["verifying.bad_aliases"] += bad_aliases_;
  ForwardingRecipeStore::AddCounters(counters);
}

}  // namespace hpu::store
