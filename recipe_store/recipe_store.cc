#include "recipe_store/recipe_store.h"

#include <algorithm>
#include <functional>

namespace hpu::store {

uint64_t Entry::size_bytes() const {
  uint64_t size = signed_manifest.record.size();
  for (const Blob& blob : blobs) size += blob->size();
  return size;
}

std::vector<BlobRef> BlobRefs(const Manifest& manifest) {
  std::vector<BlobRef> refs = {manifest.program};
  refs.insert(refs.end(), manifest.recipes.begin(), manifest.recipes.end());
  return refs;
}

absl::StatusOr<Entry> MakeEntry(SignedRecord signed_manifest, std::vector<Blob> blobs) {
  Entry entry;
  ASSIGN_OR_RETURN(entry.manifest, DecodeManifest(signed_manifest.record));
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  if (refs.size() != blobs.size()) {
    return DataLoss("manifest names ", refs.size(), " blobs, ", blobs.size(), " are there");
  }
  for (size_t i = 0; i < refs.size(); ++i) {
    if (blobs[i] == nullptr || blobs[i]->size() != refs[i].size_bytes) {
      return DataLoss("blob ", i, " has ", blobs[i] == nullptr ? 0 : blobs[i]->size(),
                      " bytes, the manifest says ", refs[i].size_bytes);
    }
  }
  entry.signed_manifest = std::move(signed_manifest);
  entry.blobs = std::move(blobs);
  return entry;
}

absl::Status CheckDigests(const Entry& entry) {
  const std::vector<BlobRef> refs = BlobRefs(entry.manifest);
  HPU_CHECK(refs.size() == entry.blobs.size(), "entries are made by MakeEntry");
  for (size_t i = 0; i < refs.size(); ++i) {
    if (Sha256(*entry.blobs[i]) != refs[i].digest) {
      return DataLoss("blob ", i, " of key ", ToHex(entry.manifest.key()).substr(0, 16),
                      " does not have its digest ", ToHex(refs[i].digest).substr(0, 16));
    }
  }
  return absl::OkStatus();
}

void NewestFirst(std::vector<Manifest>& manifests, size_t limit) {
  std::map<ListPosition, Manifest, std::greater<>> sorted;
  for (Manifest& manifest : manifests) sorted.try_emplace(PositionOf(manifest), manifest);
  manifests.clear();
  for (auto& [position, manifest] : sorted) {
    if (limit != 0 && manifests.size() == limit) break;
    manifests.push_back(std::move(manifest));
  }
}

void OldestFirst(std::vector<Alias>& aliases) {
  std::ranges::stable_sort(aliases, {}, &Alias::created_unix_seconds);
}

namespace {

absl::Status NoMaintenance() {
  return Error(absl::StatusCode::kUnimplemented, "this store does not look after its entries");
}

}  // namespace

void StoreMaintenance::NoteUse(const Digest&) {}

absl::Status StoreMaintenance::MakeRoom(const std::string&, const Entry&) {
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Alias>> StoreMaintenance::AliasesOf(const Digest&) {
  return NoMaintenance();
}

absl::StatusOr<std::vector<Manifest>> StoreMaintenance::List(size_t,
                                                             const std::optional<ListPosition>&) {
  return NoMaintenance();
}

absl::StatusOr<std::vector<ListPosition>> StoreMaintenance::Positions(
    size_t, const std::optional<ListPosition>&) {
  return NoMaintenance();
}

absl::Status StoreMaintenance::Pin(const Digest&, bool) { return NoMaintenance(); }

absl::StatusOr<std::vector<Digest>> StoreMaintenance::Pinned() { return NoMaintenance(); }

absl::StatusOr<std::vector<Digest>> StoreMaintenance::CollectGarbage(uint64_t, uint64_t) {
  return NoMaintenance();
}

absl::Status StoreMaintenance::Flush() { return absl::OkStatus(); }

}  // namespace hpu::store
