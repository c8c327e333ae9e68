#include "recipe_store/stored_entry.h"

#include "recipe_store/store_index.h"

namespace hpu::store {

absl::StatusOr<StoredManifest> DecodeStoredManifest(std::span<const uint8_t> bytes) {
  StoredManifest stored;
  ASSIGN_OR_RETURN(stored.signed_record, DecodeSignedRecord(bytes));
  ASSIGN_OR_RETURN(stored.manifest, DecodeManifest(stored.signed_record.record));
  return stored;
}

absl::StatusOr<StoredManifest> DecodeStoredManifest(std::span<const uint8_t> bytes,
                                                    const Digest& key) {
  ASSIGN_OR_RETURN(StoredManifest stored, DecodeStoredManifest(bytes));
  if (stored.manifest.key() == key) return stored;
  return DataLoss("the manifest under ", ToHex(key), " is of another key");
}

absl::StatusOr<AliasRecord> DecodeStoredAlias(std::span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(SignedRecord signed_record, DecodeSignedRecord(bytes));
  return MakeAliasRecord(std::move(signed_record));
}

std::vector<BlobRef> DistinctBlobs(std::vector<BlobRef> refs) {
  refs = UniqueRefs(std::move(refs));
  std::erase_if(refs, [](const BlobRef& ref) { return ref.size_bytes == 0; });
  return refs;
}

absl::StatusOr<Entry> MakeStoredEntry(const Digest& key, Purpose purpose,
                                      std::span<const uint8_t> record, uint64_t max_bytes,
                                      const char* place, const BlobReader& read_blobs) {
  ASSIGN_OR_RETURN(StoredManifest stored, DecodeStoredManifest(record, key));
  const std::vector<BlobRef> refs = BlobRefs(stored.manifest);
  uint64_t bytes = 0;
  for (const BlobRef& ref : refs) bytes += ref.size_bytes;
  if (bytes > max_bytes) {
    return NotFound("key ", ToHex(key), " has ", bytes, " bytes in ", place, "; at most ",
                    max_bytes, " are read");
  }
  using Found = std::map<Digest, Blob>;
  ASSIGN_OR_RETURN(const Found found, read_blobs(stored.manifest, DistinctBlobs(refs), bytes));
  static const auto* const kEmpty = new Blob(std::make_shared<const Bytes>());
  std::vector<Blob> blobs;
  for (const BlobRef& ref : refs) {
    blobs.push_back(ref.size_bytes == 0 ? *kEmpty : found.at(ref.digest));
  }
  ASSIGN_OR_RETURN(Entry entry, MakeEntry(std::move(stored.signed_record), std::move(blobs)));
  if (purpose == Purpose::kVerify) RETURN_IF_ERROR(CheckDigests(entry));
  return entry;
}

}  // namespace hpu::store
