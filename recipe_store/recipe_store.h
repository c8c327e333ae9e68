// RecipeStore: alias -> content key -> manifest -> content-addressed blobs. Implementations are
// small layers that are stacked by factory.h, e.g. metrics(read_caching(fast=memory,
// slow=verifying(rocksdb))).
//
// A store may forget, but it may not lie: what Get answers is what was put under that key. Entries
// are immutable; putting a key again replaces its entry as a whole. An alias lives at most as long
// as the entry that it names. All methods are thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "recipe_store/signing/alias.h"
#include "recipe_store/signing/manifest.h"

namespace hpu::store {

// Immutable bytes, shared by the layers, the calls that send them and the memory caches.
using Blob = std::shared_ptr<const Bytes>;

// What is filed under a content key. `manifest` is the decoded form of `signed_manifest.record`.
struct Entry {
  SignedRecord signed_manifest;
  Manifest manifest;
  std::vector<Blob> blobs;  // the program, then the recipes in the manifest's order

  // Bytes that the blobs and the manifest take.
  uint64_t size_bytes() const;
};

// References of all blobs of a manifest in the order of Entry::blobs.
std::vector<BlobRef> BlobRefs(const Manifest& manifest);

// Joins a manifest with its blobs. DATA_LOSS if the manifest is damaged, or number or sizes of the
// blobs differ from it; digests are not looked at (CheckDigests).
absl::StatusOr<Entry> MakeEntry(SignedRecord signed_manifest, std::vector<Blob> blobs);

// DATA_LOSS, naming the blob, unless every blob has the digest that the manifest gives it.
absl::Status CheckDigests(const Entry& entry);

// Sorts newest first, once each, and cuts to `limit` (0 = all); what RecipeStore::List promises.
void NewestFirst(std::vector<Manifest>& manifests, size_t limit);
// What RecipeStore::AliasesOf promises.
void OldestFirst(std::vector<Alias>& aliases);

// That an entry was lost for want of room: the tenant's names of it, and the entry, unless others
// have names for it too. Nobody's where it had no name.
struct Eviction {
  Digest key{};
  std::string tenant;
  bool of_share = false;  // the tenant had too much; else the store was full
};
using EvictionSink = std::function<void(const Eviction& eviction)>;

class RecipeStore {
 public:
  virtual ~RecipeStore() = default;

  // By content key. NOT_FOUND is a miss, and only that. DATA_LOSS: the entry is damaged.
  // UNAVAILABLE: the store cannot be read now.
  virtual absl::StatusOr<Entry> Get(const Digest& key) = 0;

  // As Get, for who looks after the store: it does not count as a use.
  virtual absl::StatusOr<Entry> Peek(const Digest& key) { return Get(key); }

  // A layer above had the entry: it counts as used. Nothing where nobody asks for uses.
  virtual void NoteUse(const Digest& /*key*/) {}

  // Files the entry under its manifest's key; all of it or nothing is seen by later calls, also
  // after a crash. RESOURCE_EXHAUSTED: larger than the store. UNAVAILABLE: cannot be written now.
  virtual absl::Status Put(const Entry& entry) = 0;

  // Before Put of an entry that the tenant will name: takes what it used longest ago from it, if it
  // has more than its share then. RESOURCE_EXHAUSTED: the entry is larger than the share.
  // UNAVAILABLE: as Put.
  virtual absl::Status MakeRoom(const std::string& /*tenant*/, const Entry& /*entry*/) {
    return absl::OkStatus();
  }

  // By AliasId; otherwise as Get. That the entry is there can change at any time.
  virtual absl::StatusOr<AliasRecord> GetAlias(const Digest& id) = 0;

  // Files the alias, in place of an older one of its id. NOT_FOUND: the entry that it names is not
  // there. RESOURCE_EXHAUSTED, UNAVAILABLE: as Put.
  virtual absl::Status PutAlias(const AliasRecord& alias) = 0;

  // OK if there is none of that id.
  virtual absl::Status DropAlias(const Digest& id) = 0;

  // Of an entry, oldest first; none if there is no such entry.
  virtual absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) = 0;

  // Manifests, newest first (ListPosition), of those that come after `after`; limit 0 = all. Less
  // than `limit` only where these are the last.
  virtual absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                                     const std::optional<ListPosition>& after) = 0;

  // Takes a damaged entry and its aliases out of service; persistent stores keep its manifest and
  // the reason aside for inspection. OK if the key is unknown.
  virtual absl::Status Quarantine(const Digest& key, const std::string& reason) = 0;

  // What a store does about the entries that it keeps itself. Engines that servers share look after
  // theirs: UNIMPLEMENTED, as all of these are where a layer does not say otherwise.

  // A pinned entry is not evicted; that outlives the process where the entry does. NOT_FOUND.
  virtual absl::Status Pin(const Digest& key, bool pinned);
  virtual absl::StatusOr<std::vector<Digest>> Pinned();
  // Removes what was last used before `unused_since` (microseconds of the epoch; 0 = nothing), then
  // what was used longest ago until at most `max_bytes` are left; never what is pinned. The keys.
  virtual absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                             uint64_t unused_since);
  // As List, also of entries whose manifests cannot be read, which List passes over.
  virtual absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after);
  // Reads the entry from where it lasts, past caches. Errors as Get.
  virtual absl::Status Verify(const Digest& key);

  // Makes lazily written state (access times) durable. Entries are durable when Put returns.
  virtual absl::Status Flush() = 0;

  // Adds this layer's counters and those below it, named "<layer>.<what>".
  virtual void AddCounters(std::map<std::string, uint64_t>& counters) const = 0;
};

}  // namespace hpu::store
