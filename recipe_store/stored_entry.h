// The engines keep manifests and aliases as signed records and blobs under their digests. This
// header turns what they read back into entries and aliases. The bytes may be damaged or hostile.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "recipe_store/recipe_store.h"

namespace hpu::store {

// `manifest` is the decoded form of `signed_record.record`.
struct StoredManifest {
  SignedRecord signed_record;
  Manifest manifest;
};

// DATA_LOSS: the bytes are damaged. NOT_FOUND: the manifest has another version.
absl::StatusOr<StoredManifest> DecodeStoredManifest(std::span<const uint8_t> bytes);
// Also returns DATA_LOSS if the manifest is of another key.
absl::StatusOr<StoredManifest> DecodeStoredManifest(std::span<const uint8_t> bytes,
                                                    const Digest& key);

// DATA_LOSS: the bytes are damaged. NOT_FOUND: the alias has another version.
absl::StatusOr<AliasRecord> DecodeStoredAlias(std::span<const uint8_t> bytes);

// Returns each digest once, without the empty blob, which is known without asking.
std::vector<BlobRef> DistinctBlobs(std::vector<BlobRef> refs);

// Reads blobs from an engine: `refs` are DistinctBlobs of the manifest, and all its blobs together
// have `bytes` bytes. The result has a blob for each of `refs`. NOT_FOUND: a blob is not there.
using BlobReader = std::function<absl::StatusOr<std::map<Digest, Blob>>(
    const Manifest& manifest, const std::vector<BlobRef>& refs, uint64_t bytes)>;

// Makes the entry of `key` from its record in an engine, which `place` names in messages ("the
// shared store"). Returns the errors of DecodeStoredManifest, `read_blobs` and MakeEntry.
// NOT_FOUND: the blobs have more than `max_bytes`. With kVerify the digests are checked.
absl::StatusOr<Entry> MakeStoredEntry(const Digest& key, Purpose purpose,
                                      std::span<const uint8_t> record, uint64_t max_bytes,
                                      const char* place, const BlobReader& read_blobs);

}  // namespace hpu::store
