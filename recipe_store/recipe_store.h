// RecipeStore: key -> manifest -> content-addressed blobs. Implementations are small layers that
// are stacked by factory.h, e.g. metrics(read_caching(fast=memory, slow=verifying(rocksdb))).
//
// A store may forget, but it may not lie: what Get answers is what was put under that key. Entries
// are immutable; putting a key again replaces its entry as a whole. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "recipe_store/manifest.h"

namespace hpu::store {

// Immutable bytes, shared by the layers, the calls that send them and the memory caches.
using Blob = std::shared_ptr<const Bytes>;

// What is filed under a key. `manifest` is the decoded form of `signed_manifest.manifest`.
struct Entry {
  SignedManifest signed_manifest;
  Manifest manifest;
  std::vector<Blob> blobs;  // the program, then the recipes in the manifest's order

  // Bytes that the blobs and the manifest take.
  uint64_t size_bytes() const;
};

// References of all blobs of a manifest in the order of Entry::blobs.
std::vector<BlobRef> BlobRefs(const Manifest& manifest);

// Joins a manifest with its blobs. DATA_LOSS if the manifest is damaged, or number or sizes of the
// blobs differ from it; digests are not looked at (CheckDigests).
absl::StatusOr<Entry> MakeEntry(SignedManifest signed_manifest, std::vector<Blob> blobs);

// DATA_LOSS, naming the blob, unless every blob has the digest that the manifest gives it.
absl::Status CheckDigests(const Entry& entry);

// Sorts newest first and cuts to `limit` (0 = all); what RecipeStore::List promises.
void NewestFirst(std::vector<Manifest>& manifests, size_t limit);

class RecipeStore {
 public:
  virtual ~RecipeStore() = default;

  // NOT_FOUND is a miss, and only that. DATA_LOSS: the entry is damaged. UNAVAILABLE: the store
  // cannot be read now.
  virtual absl::StatusOr<Entry> Get(const Digest& key) = 0;

  // Files the entry under its manifest's key; all of it or nothing is seen by later calls, also
  // after a crash. RESOURCE_EXHAUSTED: larger than the store. UNAVAILABLE: cannot be written now.
  virtual absl::Status Put(const Entry& entry) = 0;

  // One answer per key, without reading blobs and without counting as a use.
  virtual absl::StatusOr<std::vector<bool>> Contains(std::span<const Digest> keys) = 0;

  // A blob by its digest, whichever entry brought it.
  virtual absl::StatusOr<Blob> GetBlob(const Digest& digest) = 0;

  // Manifests, newest first; limit 0 = all.
  virtual absl::StatusOr<std::vector<Manifest>> List(size_t limit) = 0;

  // Takes a damaged entry out of service; persistent stores keep its manifest and the reason aside
  // for inspection. OK if the key is unknown.
  virtual absl::Status Quarantine(const Digest& key, const std::string& reason) = 0;

  // Makes lazily written state (access times) durable. Entries are durable when Put returns.
  virtual absl::Status Flush() = 0;

  // Adds this layer's counters and those below it, named "<layer>.<what>".
  virtual void AddCounters(std::map<std::string, uint64_t>& counters) const = 0;
};

}  // namespace hpu::store
